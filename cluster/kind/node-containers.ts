import { $ } from 'zx/core'
import type { EngineName } from './engine.ts'

/** A node of a kind cluster as its engine knows it. */
export interface NodeContainer {
  name: string
  running: boolean
}

/** The node containers of a cluster, control plane first; empty where there is none. Throws when the engine does not answer. */
export async function nodeContainers(engine: EngineName, cluster: string): Promise<NodeContainer[]> {
  const label = `label=io.x-k8s.kind.cluster=${cluster}`
  const run = $({ quiet: true, nothrow: true })
  const { exitCode, stdout, stderr } = await run`${engine} ps -a --filter ${label} --format ${'{{.Names}}\t{{.State}}'}`
  if (exitCode !== 0) throw new Error(`${engine} does not list its containers: ${lastLine(stderr)}`)
  return stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split('\t'))
    .map(([name = '', state]) => ({ name, running: state === 'running' }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** The image that a container runs, by an identity that the engine finds without a registry. */
export async function imageOf(engine: EngineName, container: string): Promise<string> {
  const { stdout } = await $({ quiet: true, nothrow: true })`${engine} inspect --format ${'{{.Image}}'} ${container}`
  return stdout.trim()
}

/** Starts containers that were stopped, as after a restart of the machine. Throws with the engine's word when it can't. */
export async function startContainers(engine: EngineName, names: readonly string[]): Promise<void> {
  const { exitCode, stderr } = await $({ quiet: true, nothrow: true })`${engine} start ${[...names]}`
  if (exitCode !== 0) throw new Error(`${engine} could not start ${names.join(', ')}: ${lastLine(stderr)}`)
}

const lastLine = (text: string) => text.trim().split('\n').at(-1) ?? ''
