import { type EngineName, engineCommand, engineReason } from './engine.ts'

/** A node of a kind cluster as its engine lists it. */
export interface NodeContainer {
  name: string
  /** `running`, `paused`, `exited` … */
  state: string
}

export const isRunning = ({ state }: NodeContainer): boolean => state === 'running'

/**
 * The node containers of a cluster, control plane first; empty where there is none. Throws when the
 * engine does not answer.
 */
export async function nodeContainers(
  engine: EngineName,
  cluster: string,
): Promise<NodeContainer[]> {
  const label = `label=io.x-k8s.kind.cluster=${cluster}`
  const format = '{{.Names}}\t{{.State}}'
  const { exitCode, stdout, stderr } =
    await engineCommand()`${engine} ps -a --filter ${label} --format ${format}`
  if (exitCode !== 0)
    throw new Error(`${engine} could not list its containers: ${engineReason(stderr)}`)
  return stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split('\t'))
    .map(([name = '', state = '']) => ({ name, state }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}

/**
 * Templates of what an engine knows about a container: an ID of its image, `running` or another
 * state, its last start, its IPv4 address.
 */
export const IMAGE = '{{.Image}}'
export const STATE = '{{.State.Status}}'
export const STARTED_AT = '{{json .State.StartedAt}}'
export const ADDRESS = '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}'

/** What the engine prints with a template about each of these containers that exists, by name. */
export async function inspect(
  engine: EngineName,
  template: string,
  names: readonly string[],
): Promise<Map<string, string>> {
  const format = `{{.Name}} ${template}`
  const { stdout } = await engineCommand()`${engine} inspect --format ${format} ${[...names]}`
  return new Map(
    [...stdout.matchAll(/^\/?(\S+) (\S.*)$/gm)].map(([, name = '', value = '']) => [name, value]),
  )
}

/** Throws with the engine's reason. */
async function change(
  engine: EngineName,
  action: 'start' | 'stop' | 'unpause',
  names: readonly string[],
): Promise<void> {
  if (names.length === 0) return
  const { exitCode, stderr } = await engineCommand()`${engine} ${action} ${names}`
  if (exitCode !== 0)
    throw new Error(`${engine} could not ${action} ${names.join(', ')}: ${engineReason(stderr)}`)
}

/**
 * Stops containers and starts them one after the other: engines assign addresses in this order.
 * Throws with the engine's reason.
 */
export async function restartInOrder(engine: EngineName, names: readonly string[]): Promise<void> {
  await change(engine, 'stop', names)
  for (const name of names) await change(engine, 'start', [name])
}

/**
 * Starts stopped containers, as after a restart of the machine, and unpauses paused ones. Throws
 * with the engine's reason.
 */
export async function startContainers(
  engine: EngineName,
  containers: readonly NodeContainer[],
): Promise<void> {
  const namesOf = (paused: boolean) =>
    containers.filter(({ state }) => (state === 'paused') === paused).map(({ name }) => name)
  await change(engine, 'unpause', namesOf(true))
  await change(engine, 'start', namesOf(false))
}
