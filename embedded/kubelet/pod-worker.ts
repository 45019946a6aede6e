import { setTimeout as delay } from 'node:timers/promises'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import { messageOf } from '../apiserver/status-error.ts'
import { podLink, runInGuest } from '../network/topology.ts'
import { MountError, podFolder, podVolumes } from './container-root.ts'
import { ContainerWorker } from './container-worker.ts'
import type { NodeContext, Pod, PodSandbox } from './objects.ts'
import { podStatus } from './pod-status.ts'

const retryMs = 2000

/** Manages one Pod on one node from its binding to its end. */
export class PodWorker {
  readonly sandbox: PodSandbox
  readonly init: readonly ContainerWorker[]
  readonly containers: readonly ContainerWorker[]
  readonly #ephemeral: ContainerWorker[] = []
  readonly #node: NodeContext
  readonly #startTime = timestamp()
  readonly #stopping = new AbortController()
  readonly #life: Promise<void>
  #attached = false
  #ending: Promise<void> | undefined
  #killTimer: NodeJS.Timeout | undefined
  #graceSeconds = Number.POSITIVE_INFINITY
  #syncing = false

  constructor(node: NodeContext, pod: Pod) {
    this.#node = node
    const { name, address: hostIP } = node.node
    const link = pod.spec.hostNetwork ? undefined : podLink(node.node, pod.metadata.uid)
    this.sandbox = { pod, node: name, podIP: hostIP, hostIP, link }
    const worker = (field: 'initContainers' | 'containers') =>
      (pod.spec[field] ?? []).map(
        (one) => new ContainerWorker(node, this.sandbox, one, field, () => this.#sync()),
      )
    this.init = worker('initContainers')
    this.containers = worker('containers')
    if (this.init.length === 0)
      for (const { status } of this.containers)
        status.state = { waiting: { reason: 'ContainerCreating' } }
    this.#sync()
    this.#life = this.#run()
  }

  get pod(): Pod {
    return this.sandbox.pod
  }

  get #all(): readonly ContainerWorker[] {
    return [...this.init, ...this.containers, ...this.#ephemeral]
  }

  container(name: string): ContainerWorker | undefined {
    return this.#all.find(({ container }) => container.name === name)
  }

  /** Handles a change of the stored Pod: of its images, or its deletion. */
  update(pod: Pod): void {
    this.sandbox.pod = pod
    for (const container of [...(pod.spec.initContainers ?? []), ...pod.spec.containers])
      this.container(container.name)?.replace(container)
    if (this.#attached) this.#startEphemeral()
    if (pod.metadata.deletionTimestamp === undefined) return
    void this.terminate(
      pod.metadata.deletionGracePeriodSeconds ?? pod.spec.terminationGracePeriodSeconds ?? 30,
    )
  }

  /** Starts the ephemeral containers (`kubectl debug`) that were added. They run once. */
  #startEphemeral(): void {
    for (const { targetContainerName, ...container } of this.pod.spec.ephemeralContainers ?? []) {
      if (this.#ephemeral.some((worker) => worker.container.name === container.name)) continue
      const target = () =>
        targetContainerName
          ? this.container(targetContainerName)?.running?.placement?.childOf
          : undefined
      const changed = () => this.#sync()
      const worker = new ContainerWorker(
        this.#node,
        this.sandbox,
        container,
        'ephemeralContainers',
        changed,
        target,
      )
      this.#ephemeral.push(worker)
      void worker.run('Never')
    }
  }

  /**
   * Ends all containers, within the grace period if they can, and removes the Pod from the node. A
   * later call may shorten it.
   */
  terminate(graceSeconds: number): Promise<void> {
    if (graceSeconds < this.#graceSeconds) {
      this.#graceSeconds = graceSeconds
      clearTimeout(this.#killTimer)
      this.#killTimer = setTimeout(() => this.#kill(), graceSeconds * 1000)
    }
    this.#ending ??= this.#end()
    return this.#ending
  }

  #kill(): void {
    this.#stopping.abort()
    for (const worker of this.#all) worker.kill()
  }

  async #end(): Promise<void> {
    this.#stopping.abort()
    await Promise.all(this.#all.map((worker) => worker.stop()))
    await this.#life
    clearTimeout(this.#killTimer)
    this.#publish()
    await this.#leave()
    this.#forget()
  }

  /** Deletes the stored Pod once all of its containers have ended. */
  #forget(): void {
    const { namespace, name, uid } = this.pod.metadata
    const { api } = this.#node
    const stored = api.get<Pod>('pods', namespace, name)
    if (stored?.metadata.uid === uid && stored.metadata.deletionTimestamp)
      api.delete('pods', namespace, name, { gracePeriodSeconds: 0 })
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted && !(await this.#join()))
      await delay(retryMs, undefined, { signal: this.#stopping.signal }).catch(() => {})
    const isInitialized = await this.#runInit()
    if (!isInitialized || this.#stopping.signal.aborted) return
    for (const { status } of this.containers)
      status.state = { waiting: { reason: 'ContainerCreating' } }
    await Promise.all(
      this.containers.map((worker) => worker.run(this.pod.spec.restartPolicy ?? 'Always')),
    )
    if (this.#stopping.signal.aborted) return
    // All containers ended permanently: the network is removed, the Pod object stays until it is
    // deleted.
    for (const worker of [...this.init, ...this.#ephemeral]) worker.kill()
    await this.#leave()
  }

  /**
   * Runs the init containers in turn; a sidecar (`restartPolicy: Always`) keeps running beside the
   * next ones, which wait until it has started (KEP-753). Returns false if one failed or the Pod is
   * being stopped.
   */
  async #runInit(): Promise<boolean> {
    for (const worker of this.init) {
      if (this.#stopping.signal.aborted) return false
      if (worker.container.restartPolicy === 'Always') {
        void worker.run('Always')
        await worker.started
        continue
      }
      const isOnce = this.pod.spec.restartPolicy === 'Never'
      const exitCode = await worker.run(isOnce ? 'Never' : 'OnFailure')
      if (exitCode !== 0) return false
      worker.status.ready = true
      this.#sync()
    }
    return true
  }

  /** Creates network and volumes. Returns false if a part is missing and it must be retried. */
  async #join(): Promise<boolean> {
    const { machine, network, api } = this.#node
    try {
      await machine.write(podVolumes(api, this.pod))
      if (this.sandbox.link) this.sandbox.podIP = await network.attach(this.sandbox.link)
      this.#attached = true
      this.#startEphemeral()
      this.#sync()
      return true
    } catch (error) {
      this.#warn(error instanceof MountError ? 'FailedMount' : 'FailedCreatePodSandBox', error)
      return false
    }
  }

  /** Removes network, mounts and files. */
  async #leave(): Promise<void> {
    if (!this.#attached) return
    this.#attached = false
    const { machine, network } = this.#node
    const { link, podIP } = this.sandbox
    const folder = podFolder(this.pod.metadata.uid)
    // The roots of all runs of its containers. If a mount remains, its content must not be removed.
    const remove = `umount -l ${folder}/*/root; rm -rf --one-file-system ${folder}`
    try {
      await Promise.all([link && network.detach(link, podIP), runInGuest(machine, remove)])
    } catch (error) {
      this.#warn('FailedKillPod', error, 'error killing pod: ')
    }
  }

  #warn(reason: string, error: unknown, before = ''): void {
    this.#node.events.event(this.pod, 'Warning', reason, before + messageOf(error))
  }

  /** Schedules one status update for all changes in this turn of the event loop. */
  #sync(): void {
    if (this.#syncing) return
    this.#syncing = true
    queueMicrotask(() => {
      this.#syncing = false
      this.#publish()
    })
  }

  #publish(): void {
    const { api } = this.#node
    const { namespace, name, uid } = this.pod.metadata
    const stored = api.get<Pod>('pods', namespace, name)
    if (stored?.metadata.uid !== uid) return
    const view = {
      init: this.init.map(({ status }) => status),
      containers: this.containers.map(({ status }) => status),
      ephemeral: this.#ephemeral.map(({ status }) => status),
      podIP: this.#attached || stored.status?.podIP ? this.sandbox.podIP : undefined,
      hostIP: this.sandbox.hostIP,
      startTime: this.#startTime,
      sandbox: this.#attached,
    }
    api.update<Pod>('pods', { ...stored, status: podStatus(stored, view) }, 'status')
  }
}
