import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { $, type ProcessPromise } from 'zx'
import type { Cluster, ExecOptions, ExecResult, Progress } from './driver.ts'
import { kindPath } from './kind/binary.ts'
import { containerEngine, type EngineName } from './kind/engine.ts'
import { kubeClient } from './kube-client.ts'
import { kindFolder, projectRoot } from './layout.ts'
import { waitFor } from './wait.ts'

const readyDeadlineMs = 180_000

/** The node image that kind.yaml pins, or `IMAGE`. */
export function nodeImage(): string {
  const config = parse(readFileSync(join(projectRoot, 'kind.yaml'), 'utf8')) as { nodes: { image: string }[] }
  return process.env.IMAGE || (config.nodes[0]?.image ?? '')
}

/** A genuine cluster made by kind on a Docker or Podman engine. */
export class KindCluster implements Cluster {
  readonly driver = 'kind'
  readonly name: string
  readonly kubeconfig: string

  constructor(name: string) {
    this.name = name
    this.kubeconfig = join(kindFolder(name), 'kubeconfig')
  }

  async up(progress: Progress): Promise<void> {
    const kind = await this.kind(progress)
    mkdirSync(kindFolder(this.name), { recursive: true, mode: 0o700 })
    if ((await this.containers()).length > 0) {
      if (await this.running()) return progress.note(`The kind cluster "${this.name}" is up.`)
      progress.start(`Removing a half-made kind cluster "${this.name}"`)
      await kind(['delete', 'cluster', '--name', this.name, '--kubeconfig', this.kubeconfig])
      progress.end(true)
    }
    progress.start(`Creating the kind cluster "${this.name}" (about a minute)`)
    const config = join(projectRoot, 'kind.yaml')
    const image = process.env.IMAGE ? ['--image', process.env.IMAGE] : []
    const arguments_ = [
      'create',
      'cluster',
      '--name',
      this.name,
      '--config',
      config,
      '--kubeconfig',
      this.kubeconfig,
      ...image,
    ]
    const creation = kind(arguments_)
    const interrupted = () => {
      creation.kill('SIGTERM').catch(() => {})
    }
    process.once('SIGINT', interrupted)
    const { exitCode, stderr } = await creation
    process.off('SIGINT', interrupted)
    progress.end(exitCode === 0)
    if (exitCode !== 0) {
      const reason = stderr.split('\n').find((line) => line.startsWith('ERROR')) ?? stderr.trim().split('\n').at(-1)
      throw new Error(
        `kind could not create the cluster (${reason}). \`make doctor\` looks for the cause; CLUSTER=embedded needs no engine.`,
      )
    }
    progress.start('Waiting for every node to be Ready')
    await waitFor('every node to be Ready', readyDeadlineMs, () => this.running())
    progress.end(true)
  }

  async down(progress: Progress): Promise<void> {
    if ((await this.containers()).length === 0) return rmSync(kindFolder(this.name), { recursive: true, force: true })
    const kind = await this.kind(progress)
    progress.start(`Deleting the kind cluster "${this.name}"`)
    const { exitCode, stderr } = await kind(['delete', 'cluster', '--name', this.name, '--kubeconfig', this.kubeconfig])
    progress.end(exitCode === 0)
    rmSync(kindFolder(this.name), { recursive: true, force: true })
    if (exitCode !== 0) throw new Error(`kind could not delete "${this.name}": ${stderr.trim().split('\n').at(-1)}`)
  }

  async running(): Promise<boolean> {
    if (!existsSync(this.kubeconfig) || (await this.containers()).length === 0) return false
    try {
      const { core } = await kubeClient(this)
      const { items } = await core.listNode()
      const ready = items.filter(({ status }) =>
        status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True'),
      )
      return ready.length > 0 && ready.length === (await this.containers()).length
    } catch {
      return false
    }
  }

  async nodes(): Promise<string[]> {
    const names = await this.containers()
    if (names.length === 0) throw new Error(`The kind cluster "${this.name}" is not up: run \`make up\`.`)
    return names
  }

  async exec(node: string, command: readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
    const engine = await this.engine()
    const run = $({ quiet: true, nothrow: true, input: Buffer.from(options.stdin ?? ''), timeout: options.timeoutMs })
    const { exitCode, stdout, stderr, signal } = await run`${engine} exec -i ${node} ${[...command]}`
    if (signal) throw new Error(`"${command.join(' ')}" on ${node} did not end in time`)
    if (exitCode !== 0 && /^Error response from daemon|^Error: no container/m.test(stderr))
      throw new Error(stderr.trim())
    return { exitCode: exitCode ?? 1, stdout, stderr }
  }

  async shell(node: string, command: readonly string[] = ['bash', '-l']): Promise<number> {
    const terminal = process.stdin.isTTY && process.stdout.isTTY ? '-it' : '-i'
    const run = $({ stdio: 'inherit', nothrow: true })
    return (await run`${await this.engine()} exec ${terminal} ${node} ${[...command]}`).exitCode ?? 1
  }

  async copyIn(node: string, path: string, content: string | Uint8Array): Promise<void> {
    const write = ['sh', '-c', 'mkdir -p "$(dirname "$0")" && cat >"$0"', path]
    const { exitCode, stderr } = await this.exec(node, write, { stdin: content })
    if (exitCode !== 0) throw new Error(`"${path}" could not be written on ${node}: ${stderr.trim()}`)
  }

  /** The cluster's node containers, control plane first; empty where there is none. */
  private async containers(): Promise<string[]> {
    const engine = await this.engine()
    const label = `label=io.x-k8s.kind.cluster=${this.name}`
    const { stdout } = await $({
      quiet: true,
      nothrow: true,
    })`${engine} ps -a --filter ${label} --format ${'{{.Names}}'}`
    return stdout.split('\n').filter(Boolean).sort()
  }

  private async engine(): Promise<EngineName> {
    const engine = await containerEngine()
    if (!engine) throw new Error('No Docker or Podman engine answers: start one, or use CLUSTER=embedded.')
    return engine
  }

  private async kind(progress: Progress): Promise<(words: string[]) => ProcessPromise> {
    const path = await kindPath(progress)
    const env = { ...process.env, KIND_EXPERIMENTAL_PROVIDER: await this.engine() }
    return (words) => $({ quiet: true, nothrow: true, env })`${path} ${words}`
  }
}
