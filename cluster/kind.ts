import { existsSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { $, execOnTerminal } from '../host/command.ts'
import { kindFolder } from '../host/layout.ts'
import { reasonOf } from '../host/main.ts'
import { OUTSIDE } from '../host/outside.ts'
import { type Progress, withProgress } from '../host/progress.ts'
import type { ExecOptions, ExecResult } from '../host/shell-word.ts'
import { DeadlineError, scaledMs, waitFor } from '../host/wait.ts'
import { changeCluster } from './cluster-lock.ts'
import { askToContinue } from './consent.ts'
import { type Cluster, type KubeClient, notUp } from './driver.ts'
import { recordComplete, restoreAddresses, wasComplete } from './kind/complete-cluster.ts'
import { execInContainer } from './kind/container-exec.ts'
import { createCluster, deleteCluster, endStrayCreation, type RunKind } from './kind/creation.ts'
import { containerEngine, type EngineName } from './kind/engine.ts'
import { loadLabImages } from './kind/images.ts'
import { applianceName, startBalancer, stopBalancer } from './kind/load-balancer/appliance.ts'
import {
  ADDRESS,
  IMAGE,
  inspect,
  isRunning,
  type NodeContainer,
  nodeContainers,
  STARTED_AT,
  startContainers,
} from './kind/node-containers.ts'
import { clientFromKubeconfig, kubeClient } from './kube-client.ts'
import { execScript } from './node-script.ts'
import { kindPath } from './programs.ts'

/**
 * A cluster may need minutes to respond after a restart of the engine; an interrupted creation does
 * not get them.
 */
const answerDeadlineMs = { whole: 300_000, interrupted: 15_000 }
const readyDeadlineMs = 180_000

/** A cluster created by kind on a Docker or Podman engine. */
export class KindCluster implements Cluster {
  readonly driver = 'kind'
  readonly selector = 'kind'
  readonly capabilities = {
    ownedByUser: false,
    hasOutside: true,
    recordsCommands: false,
    runsOldKubeProxies: false,
    ownIptables: false,
    sharedKernel: true,
    ownKernel: false,
    choosesKernel: false,
    reportsSync: false,
  }
  readonly name: string
  readonly kubeconfig: string
  #engine: EngineName | undefined

  constructor(name: string, engine?: EngineName) {
    this.name = name
    this.kubeconfig = join(kindFolder(name), 'kubeconfig')
    this.#engine = engine
  }

  up(progress: Progress): Promise<void> {
    return changeCluster(this, 'starts', progress, () => this.#up(progress))
  }

  async #up(progress: Progress): Promise<void> {
    const wasInterrupted = await endStrayCreation(kindFolder(this.name))
    if (await this.running()) progress.note(`The kind cluster "${this.name}" is up.`)
    else await this.#createOrComplete(progress, wasInterrupted)
    const engine = await this.engine()
    const nodes = await this.nodes()
    recordComplete(kindFolder(this.name), await inspect(engine, ADDRESS, nodes))
    const [node = ''] = nodes
    const { name } = this
    await loadLabImages(
      { engine, name, nodes, kind: async (args) => (await this.#kind(progress))(args) },
      progress,
    )
    const image = (await inspect(engine, IMAGE, [node])).get(node) ?? ''
    await startBalancer({ engine, name, image }, progress)
  }

  async #createOrComplete(progress: Progress, wasInterrupted: boolean): Promise<void> {
    const kind = await this.#kind(progress)
    mkdirSync(kindFolder(this.name), { recursive: true, mode: 0o700 })
    const containers = await this.#containers()
    const isComplete =
      containers.length > 0 && (await this.#complete(kind, containers, wasInterrupted, progress))
    if (!isComplete) await createCluster(this, kind, await this.engine(), progress)
    await this.#awaitReady(progress)
  }

  down(progress: Progress): Promise<void> {
    return changeCluster(this, 'stops', progress, () => this.#down(progress))
  }

  async #down(progress: Progress): Promise<void> {
    await endStrayCreation(kindFolder(this.name))
    await stopBalancer(await this.engine(), this.name)
    if (await this.exists()) {
      const kind = await this.#kind(progress)
      await withProgress(progress, `Deleting the kind cluster "${this.name}"`, () =>
        deleteCluster(this, kind),
      )
    }
    rmSync(kindFolder(this.name), { recursive: true, force: true })
  }

  /** True when the engine has containers of this cluster, in any state. */
  async exists(): Promise<boolean> {
    return (await this.#containers()).length > 0
  }

  async running(): Promise<boolean> {
    if (!existsSync(this.kubeconfig)) return false
    const containers = await this.#containers()
    if (containers.length === 0 || !containers.every(isRunning)) return false
    const nodes = await this.#apiNodes()
    if (nodes?.length !== containers.length || !nodes.every(({ ready }) => ready)) return false
    const names = containers.map(({ name }) => name)
    const started = await inspect(await this.engine(), STARTED_AT, names)
    // For 40 s after a node stopped, the API server shows the last status of its kubelet.
    return nodes.every(({ name, heardAt }) => {
      const startedAt: string = JSON.parse(started.get(name) ?? '"1970-01-01"')
      return !heardAt || heardAt.getTime() + 1000 > Date.parse(startedAt)
    })
  }

  /** Nodes whose machine does not run now, each with its state. */
  async stoppedNodes(): Promise<string[]> {
    const stopped = (await this.#containers()).filter((container) => !isRunning(container))
    return stopped.map(({ name, state }) => `${name} (${state})`)
  }

  async nodes(): Promise<string[]> {
    const containers = await this.#containers()
    if (containers.length === 0) throw notUp(this)
    return containers.map(({ name }) => name)
  }

  async exec(
    node: string,
    command: readonly string[],
    options: ExecOptions = {},
  ): Promise<ExecResult> {
    return execInContainer(
      { engine: await this.engine(), container: this.#containerOf(node), node },
      command,
      options,
    )
  }

  script(node: string, text: string, timeoutMs: number): Promise<ExecResult> {
    return execScript(this, node, text, timeoutMs)
  }

  client(): Promise<KubeClient> {
    return clientFromKubeconfig(this)
  }

  unexpectedEnd(): undefined {}

  async synced(): Promise<string[]> {
    return []
  }

  async shell(node: string, command: readonly string[] = ['bash', '-l']): Promise<number> {
    return execOnTerminal([await this.engine()], [this.#containerOf(node), ...command])
  }

  /** The engine of this cluster. Throws with the next command if none responds. */
  async engine(): Promise<EngineName> {
    this.#engine ??= await containerEngine()
    if (!this.#engine)
      throw new Error('No Docker or Podman engine responds: start one, or use CLUSTER=embedded.')
    return this.#engine
  }

  #containerOf(node: string): string {
    return node === OUTSIDE ? applianceName(this.name) : node
  }

  async #containers(): Promise<NodeContainer[]> {
    return nodeContainers(await this.engine(), this.name)
  }

  /**
   * Nodes that the API server lists, with their kubelets' last heartbeats; undefined when it does
   * not respond.
   */
  async #apiNodes(): Promise<
    { name: string; ready: boolean; heardAt: Date | undefined }[] | undefined
  > {
    try {
      const { items } = await (await kubeClient(this)).core.listNode()
      return items.map(({ metadata, status }) => {
        const condition = status?.conditions?.find(({ type }) => type === 'Ready')
        const heardAt = condition?.lastHeartbeatTime
        return {
          name: metadata?.name ?? '',
          ready: condition?.status === 'True',
          heardAt: heardAt && new Date(heardAt),
        }
      })
    } catch {
      return undefined
    }
  }

  /**
   * Completes an existing cluster: starts stopped nodes, fetches a lost kubeconfig, waits. A
   * cluster whose creation was interrupted, or with a node that never joined, is removed, unless it
   * was complete once: then the user is asked.
   * @returns whether it was completed
   * @throws ConsentError when it was complete once, can't be restarted, and the user did not agree
   * to remove it
   */
  async #complete(
    kind: RunKind,
    containers: NodeContainer[],
    wasInterrupted: boolean,
    progress: Progress,
  ): Promise<boolean> {
    const engine = await this.engine()
    const stopped = containers.filter((container) => !isRunning(container))
    if (stopped.length > 0) {
      const names = stopped.map(({ name }) => name).join(', ')
      await withProgress(progress, `Starting ${names} again`, () =>
        startContainers(engine, stopped),
      )
    }
    await restoreAddresses(engine, this.name, progress)
    const damage = await this.#damage(kind, containers.length, wasInterrupted, progress)
    if (!damage) return true
    const { trouble, incomplete } = damage
    const fate = `The kind cluster "${this.name}" can't be restarted: ${trouble}.`
    if (wasComplete(kindFolder(this.name)) || !incomplete)
      await askToContinue(
        `${fate} It will be removed with everything in it, and created again.`,
        `${fate} Nothing was removed: \`make up\` tries again, and \`YES=1 make up\` removes it with everything in it and creates a new one.`,
      )
    const removing = `Removing the ${incomplete ? 'incomplete ' : ''}kind cluster "${this.name}"`
    await withProgress(progress, removing, () => deleteCluster(this, kind))
    return false
  }

  /**
   * Why the cluster is not complete, and whether that shows that it never was; undefined if every
   * node container has joined: kubeadm wrote its kubeconfig, and the API server lists the same
   * number of nodes.
   */
  async #damage(
    kind: RunKind,
    count: number,
    wasInterrupted: boolean,
    progress: Progress,
  ): Promise<{ trouble: string; incomplete: boolean } | undefined> {
    const exported = await kind([
      'export',
      'kubeconfig',
      '--name',
      this.name,
      '--kubeconfig',
      this.kubeconfig,
    ])
    if (exported.exitCode !== 0)
      return { trouble: 'its control plane has no kubeconfig', incomplete: true }
    const deadlineMs = answerDeadlineMs[wasInterrupted ? 'interrupted' : 'whole']
    const seconds = Math.round(scaledMs(deadlineMs) / 1000)
    const waiting = `Waiting for the API server of "${this.name}" (up to ${seconds} s)`
    try {
      const nodes = await withProgress(progress, waiting, () =>
        waitFor('the API server to respond', deadlineMs, () => this.#apiNodes()),
      )
      if (nodes.length === count) return undefined
      const known = `the API server lists ${nodes.length} nodes, and there are ${count} containers`
      return { trouble: known, incomplete: nodes.length < count }
    } catch (error) {
      if (!(error instanceof DeadlineError)) throw error
      return {
        trouble: `its API server did not respond within ${seconds} s`,
        incomplete: wasInterrupted,
      }
    }
  }

  async #awaitReady(progress: Progress): Promise<void> {
    try {
      await withProgress(progress, 'Waiting for every node to be Ready', () =>
        waitFor('every node to be Ready', readyDeadlineMs, () => this.running()),
      )
    } catch (error) {
      throw new Error(`${reasonOf(error)} \`make down up\` creates a new cluster.`)
    }
  }

  async #kind(progress: Progress): Promise<RunKind> {
    // Without an engine nothing is fetched.
    const env = { ...process.env, KIND_EXPERIMENTAL_PROVIDER: await this.engine() }
    const path = await kindPath(progress)
    return (args) => $({ quiet: true, nothrow: true, env })`${path} ${args}`
  }
}
