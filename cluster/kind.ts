import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { $, type ProcessPromise } from 'zx/core'
import { kindFolder, projectRoot } from '../host/layout.ts'
import { OUTSIDE } from '../host/outside.ts'
import { waitFor } from '../host/wait.ts'
import type { Cluster, ExecOptions, ExecResult, Progress } from './driver.ts'
import { kindPath } from './kind/binary.ts'
import { endStrayCreation, noteWhileCreating } from './kind/creation.ts'
import { containerEngine, type EngineName } from './kind/engine.ts'
import { applianceName } from './kind/load-balancer/appliance.ts'
import { provideBalancer, stopBalancer } from './kind/load-balancer/balancer.ts'
import { imageOf, type NodeContainer, nodeContainers, startContainers } from './kind/node-containers.ts'
import { nodeImage, pinnedImage } from './kind/node-image.ts'
import { kubeClient } from './kube-client.ts'

const answerDeadlineMs = 60_000
const readyDeadlineMs = 180_000

type Kind = (words: string[]) => ProcessPromise

/** A genuine cluster made by kind on a Docker or Podman engine. */
export class KindCluster implements Cluster {
  readonly driver = 'kind'
  readonly sharedKernel = true
  readonly name: string
  readonly kubeconfig: string
  #engine: Promise<EngineName | undefined> | undefined

  constructor(name: string, engine?: EngineName) {
    this.name = name
    this.kubeconfig = join(kindFolder(name), 'kubeconfig')
    if (engine) this.#engine = Promise.resolve(engine)
  }

  async up(progress: Progress): Promise<void> {
    await endStrayCreation(kindFolder(this.name))
    if (await this.running()) progress.note(`The kind cluster "${this.name}" is up.`)
    else await this.#make(progress)
    const engine = await this.engine()
    const [{ name: node = '' } = {}] = await this.#containers()
    const { name, kubeconfig } = this
    await provideBalancer({ engine, name, kubeconfig, image: await imageOf(engine, node) }, progress)
  }

  async #make(progress: Progress): Promise<void> {
    const kind = await this.#kind(progress)
    mkdirSync(kindFolder(this.name), { recursive: true, mode: 0o700 })
    const containers = await this.#containers()
    if (containers.length > 0 && (await this.#finish(kind, containers, progress))) return
    await this.#create(kind, progress)
    await this.#awaitReady(progress)
  }

  async down(progress: Progress): Promise<void> {
    await endStrayCreation(kindFolder(this.name))
    await stopBalancer(await this.engine(), this.name)
    if ((await this.#containers()).length > 0) {
      const kind = await this.#kind(progress)
      progress.start(`Deleting the kind cluster "${this.name}"`)
      await this.#delete(kind).catch((error: unknown) => {
        progress.end(false)
        throw error
      })
      progress.end(true)
    }
    rmSync(kindFolder(this.name), { recursive: true, force: true })
  }

  /** True when the engine has containers of this cluster, whatever their state. */
  async exists(): Promise<boolean> {
    return (await this.#containers()).length > 0
  }

  async running(): Promise<boolean> {
    if (!existsSync(this.kubeconfig)) return false
    const containers = await this.#containers()
    if (containers.length === 0 || containers.some(({ running }) => !running)) return false
    const nodes = await this.#apiNodes()
    return nodes?.length === containers.length && nodes.every(({ ready }) => ready)
  }

  async nodes(): Promise<string[]> {
    const containers = await this.#containers()
    if (containers.length === 0) throw new Error(`The kind cluster "${this.name}" is not up: run \`make up\`.`)
    return containers.map(({ name }) => name)
  }

  async exec(node: string, command: readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
    const engine = await this.engine()
    const run = $({ quiet: true, nothrow: true, input: Buffer.from(options.stdin ?? ''), timeout: options.timeoutMs })
    const { exitCode, stdout, stderr, signal } = await run`${engine} exec -i ${this.#containerOf(node)} ${[...command]}`
    if (signal) throw new Error(`"${command.join(' ')}" on ${node} did not end in time`)
    if (
      exitCode !== 0 &&
      /^Error response from daemon|^Error: no container|^Cannot connect to the Docker/m.test(stderr)
    )
      throw new Error(stderr.trim())
    return { exitCode: exitCode ?? 1, stdout, stderr }
  }

  async shell(node: string, command: readonly string[] = ['bash', '-l']): Promise<number> {
    const terminal = process.stdin.isTTY && process.stdout.isTTY ? '-it' : '-i'
    const run = $({ stdio: 'inherit', nothrow: true })
    return (await run`${await this.engine()} exec ${terminal} ${this.#containerOf(node)} ${[...command]}`).exitCode ?? 1
  }

  async copyIn(node: string, path: string, content: string | Uint8Array): Promise<void> {
    const write = ['sh', '-c', 'mkdir -p "$(dirname "$0")" && cat >"$0"', path]
    const { exitCode, stderr } = await this.exec(node, write, { stdin: content })
    if (exitCode !== 0) throw new Error(`"${path}" could not be written on ${node}: ${stderr.trim()}`)
  }

  /** The engine that holds this cluster. Throws with the way out where none answers. */
  async engine(): Promise<EngineName> {
    this.#engine ??= containerEngine()
    const engine = await this.#engine
    if (!engine) throw new Error('No Docker or Podman engine answers: start one, or use CLUSTER=embedded.')
    return engine
  }

  #containerOf(node: string): string {
    return node === OUTSIDE ? applianceName(this.name) : node
  }

  async #containers(): Promise<NodeContainer[]> {
    return nodeContainers(await this.engine(), this.name)
  }

  /** Nodes that the API server knows; undefined when it does not answer. */
  async #apiNodes(): Promise<{ ready: boolean }[] | undefined> {
    try {
      const { items } = await (await kubeClient(this)).core.listNode()
      return items.map(({ status }) => ({
        ready: status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') === true,
      }))
    } catch {
      return undefined
    }
  }

  /**
   * Finishes what stands already: starts stopped nodes, fetches a lost kubeconfig, waits. What can't become a whole cluster,
   * because its creation was cut off or a node is gone, is removed.
   * @returns whether the cluster is up now
   */
  async #finish(kind: Kind, containers: NodeContainer[], progress: Progress): Promise<boolean> {
    const stopped = containers.filter(({ running }) => !running).map(({ name }) => name)
    if (stopped.length > 0) {
      progress.start(`Starting ${stopped.join(', ')} again`)
      await startContainers(await this.engine(), stopped)
      progress.end(true)
    }
    if (await this.#isWhole(kind, containers.length, stopped.length > 0)) {
      await this.#awaitReady(progress)
      return true
    }
    progress.start(`Removing a half-made kind cluster "${this.name}"`)
    await this.#delete(kind)
    progress.end(true)
    return false
  }

  /** Whether every node container has joined: kubeadm wrote its kubeconfig, and the API server knows as many nodes. */
  async #isWhole(kind: Kind, count: number, justStarted: boolean): Promise<boolean> {
    const given = await kind(['export', 'kubeconfig', '--name', this.name, '--kubeconfig', this.kubeconfig])
    if (given.exitCode !== 0) return false
    try {
      const nodes = await waitFor(
        'the API server to answer',
        justStarted ? answerDeadlineMs : answerDeadlineMs / 4,
        () => this.#apiNodes(),
      )
      return nodes.length === count
    } catch {
      return false
    }
  }

  async #create(kind: Kind, progress: Progress): Promise<void> {
    const image = await nodeImage(await this.engine())
    progress.start(`Creating the kind cluster "${this.name}" (about a minute)`)
    const creation = kind([
      ...['create', 'cluster', '--name', this.name, '--kubeconfig', this.kubeconfig],
      ...['--config', join(projectRoot, 'kind.yaml')],
      ...(image === pinnedImage() ? [] : ['--image', image]),
    ])
    let interrupted = false
    const interrupt = () => {
      interrupted = true
      creation.kill('SIGKILL').catch(() => {})
    }
    process.once('SIGINT', interrupt)
    await noteWhileCreating(kindFolder(this.name), creation)
    const { exitCode, stderr } = await creation
    process.off('SIGINT', interrupt)
    progress.end(exitCode === 0 && !interrupted)
    if (interrupted) await this.#leave(kind, progress)
    if (exitCode === 0) return
    const reason = stderr.split('\n').find((line) => line.startsWith('ERROR')) ?? stderr.trim().split('\n').at(-1)
    throw new Error(
      `kind could not create the cluster (${reason}). \`make doctor\` looks for the cause; CLUSTER=embedded needs no engine.`,
    )
  }

  /** After Ctrl-C: nothing half-made stays, unless a second Ctrl-C cuts this off too. */
  async #leave(kind: Kind, progress: Progress): Promise<never> {
    progress.start(`Interrupted: removing what there is of "${this.name}"`)
    const gone = await this.#delete(kind).then(
      () => true,
      () => false,
    )
    progress.end(gone, gone ? undefined : '`make down` removes the rest')
    process.exit(130)
  }

  async #delete(kind: Kind): Promise<void> {
    const { exitCode, stderr } = await kind(['delete', 'cluster', '--name', this.name, '--kubeconfig', this.kubeconfig])
    if (exitCode !== 0) throw new Error(`kind could not delete "${this.name}": ${stderr.trim().split('\n').at(-1)}`)
  }

  async #awaitReady(progress: Progress): Promise<void> {
    progress.start('Waiting for every node to be Ready')
    try {
      await waitFor('every node to be Ready', readyDeadlineMs, () => this.running())
      progress.end(true)
    } catch (error) {
      progress.end(false)
      throw new Error(`${error instanceof Error ? error.message : error} \`make down up\` makes the cluster anew.`)
    }
  }

  async #kind(progress: Progress): Promise<Kind> {
    const path = await kindPath(progress)
    const env = { ...process.env, KIND_EXPERIMENTAL_PROVIDER: await this.engine() }
    return (words) => $({ quiet: true, nothrow: true, env })`${path} ${words}`
  }
}
