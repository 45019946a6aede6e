import { rmSync } from 'node:fs'
import { execOnTerminal } from '../host/command.ts'
import { reasonOf } from '../host/main.ts'
import { type Progress, silent, withProgress } from '../host/progress.ts'
import type { ExecOptions, ExecResult } from '../host/shell-word.ts'
import { waitFor } from '../host/wait.ts'
import { type ClusterAccess, clientFromFile, clientOfLearner } from './api-client.ts'
import { changeCluster } from './cluster-lock.ts'
import { consent } from './consent.ts'
import {
  accessImage,
  accessNamespace,
  accessPodTrouble,
  ENTER_NODE,
  installAccessPods,
  onNodeCommand,
  readyAccessPods,
} from './context/node-access.ts'
import { contextFolder, ownKubeconfig, ownObjects } from './context/own-objects.ts'
import { execInPod } from './context/pod-exec.ts'
import { type Cluster, ClusterNotReady, type KubeClient } from './driver.ts'
import { execScript } from './node-script.ts'
import { kubectlPath } from './programs.ts'

const readyDeadlineMs = 120_000
const goneDeadlineMs = 300_000

/**
 * A cluster of the user's kubeconfig: kubeadm, k3s, a cloud. Its nodes are reached through
 * privileged Pods of ours, by the API's exec. Reading needs no consent; every change does
 * (cluster/consent.ts).
 */
export class ContextCluster implements Cluster {
  readonly driver = 'context'
  readonly selector: string
  readonly capabilities = {
    ownedByUser: true,
    hasOutside: false,
    recordsCommands: false,
    runsOldKubeProxies: false,
    ownIptables: false,
    sharedKernel: false,
    ownKernel: false,
    choosesKernel: false,
    reportsSync: false,
  }
  readonly name: string
  readonly kubeconfig: string
  readonly #access: ClusterAccess | undefined
  #client: KubeClient | undefined
  #accessPods: Map<string, string> | undefined

  private constructor(name: string, kubeconfig: string, access?: ClusterAccess) {
    this.name = name
    this.selector = `context:${name}`
    this.kubeconfig = kubeconfig
    this.#access = access
  }

  /** Opens a context by its name. Throws with the existing names when it does not exist. */
  static async open(context: string): Promise<ContextCluster> {
    return new ContextCluster(context, await ownKubeconfig(context))
  }

  /**
   * A learner's cluster, under a name that the caller chooses. It has no kubeconfig file:
   * `kubeconfig` is empty.
   */
  static ofLearner(name: string, access: ClusterAccess): ContextCluster {
    return new ContextCluster(name, '', access)
  }

  up(progress: Progress): Promise<void> {
    return changeCluster(this, 'starts', progress, () => this.#up(progress))
  }

  async #up(progress: Progress): Promise<void> {
    const client = await this.client()
    const wanted = await this.#nodeNames(client)
    const ready = await readyAccessPods(client)
    if (wanted.every((node) => ready.has(node)))
      return progress.note(
        `The cluster of context "${this.name}" answers, and each node has its node-access Pod.`,
      )
    await consent(
      this,
      `run a privileged Pod on each of ${wanted.length} nodes, in namespace "${accessNamespace}",`,
    )
    const starting = `Starting a node-access Pod on ${wanted.length} nodes (image ${accessImage()})`
    await withProgress(progress, starting, async () => {
      await installAccessPods(client)
      await waitFor('a node-access Pod on every node', readyDeadlineMs, async () => {
        const trouble = await accessPodTrouble(client)
        if (trouble)
          throw new Error(
            `The node-access Pod can't start on ${trouble}. AGENT_IMAGE= names another image.`,
          )
        const there = await readyAccessPods(client)
        return wanted.every((node) => there.has(node))
      })
    })
    this.#accessPods = undefined
  }

  down(progress: Progress): Promise<void> {
    return changeCluster(this, 'stops', progress, () => this.#down(progress))
  }

  async #down(progress: Progress): Promise<void> {
    const client = await this.client()
    const objects = await ownObjects(client)
    if (objects.length > 0) {
      await consent(this, `delete ${objects.map(({ what }) => what).join(', ')}`)
      const removing = `Removing what these labs created on the cluster of context "${this.name}"`
      await withProgress(progress, removing, async () => {
        await Promise.all(objects.map(({ remove }) => remove()))
        await waitFor(
          'our objects to be deleted',
          goneDeadlineMs,
          async () => (await ownObjects(client)).length === 0,
        )
      })
    }
    rmSync(contextFolder(this.name), { recursive: true, force: true })
  }

  async running(): Promise<boolean> {
    try {
      const client = await this.client()
      const [nodes, pods] = await Promise.all([this.#nodeNames(client), readyAccessPods(client)])
      return nodes.length > 0 && nodes.every((node) => pods.has(node))
    } catch {
      return false
    }
  }

  async nodes(): Promise<string[]> {
    return this.#nodeNames(await this.client())
  }

  async exec(
    node: string,
    command: readonly string[],
    options: ExecOptions = {},
  ): Promise<ExecResult> {
    const name = await this.#accessPodOn(node)
    const stdin = Buffer.from(options.stdin ?? '')
    const args = onNodeCommand(command, stdin.length)
    return execInPod(await this.client(), { namespace: accessNamespace, name }, args, {
      ...options,
      stdin,
    })
  }

  script(node: string, text: string, timeoutMs: number): Promise<ExecResult> {
    return execScript(this, node, text, timeoutMs)
  }

  unexpectedEnd(): undefined {}

  /** Only the machines themselves know. */
  async stoppedNodes(): Promise<string[]> {
    return []
  }

  async synced(): Promise<string[]> {
    return []
  }

  async shell(node: string, command: readonly string[] = ['/bin/sh', '-l']): Promise<number> {
    const kubectl = [
      await kubectlPath(silent),
      '--kubeconfig',
      this.kubeconfig,
      '-n',
      accessNamespace,
    ]
    return execOnTerminal(kubectl, [await this.#accessPodOn(node), '--', ...ENTER_NODE, ...command])
  }

  async client(): Promise<KubeClient> {
    this.#client ??= this.#access ? clientOfLearner(this, this.#access) : clientFromFile(this)
    return this.#client
  }

  /**
   * Linux nodes, control plane first. Throws in one sentence when the API server does not answer.
   */
  async #nodeNames({ core }: KubeClient): Promise<string[]> {
    const { items } = await core.listNode().catch((error: unknown) => {
      throw new Error(
        `The cluster of context "${this.name}" does not respond (${reasonOf(error)}): check it with kubectl.`,
      )
    })
    const isControlPlane = (labels: Record<string, string> = {}) =>
      'node-role.kubernetes.io/control-plane' in labels ||
      'node-role.kubernetes.io/master' in labels
    return items
      .filter(({ metadata }) => (metadata?.labels?.['kubernetes.io/os'] ?? 'linux') === 'linux')
      .map(({ metadata }) => ({
        name: metadata?.name ?? '',
        first: isControlPlane(metadata?.labels),
      }))
      .sort((a, b) => Number(b.first) - Number(a.first) || (a.name < b.name ? -1 : 1))
      .map(({ name }) => name)
  }

  async #accessPodOn(node: string): Promise<string> {
    if (!this.#accessPods?.has(node)) this.#accessPods = await readyAccessPods(await this.client())
    const pod = this.#accessPods.get(node)
    if (pod) return pod
    throw new ClusterNotReady(
      `Node "${node}" has no node-access Pod: run \`make up\` with CLUSTER="context:${this.name}" first.`,
    )
  }
}
