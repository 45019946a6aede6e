import { createHash } from 'node:crypto'
import { PassThrough, Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import type { GuestProcess } from '../machine/machine.ts'
import { startProbes } from './container-probes.ts'
import { createContainer, type RunningContainer, type StartContainer } from './container-process.ts'
import { ContainerConfigError } from './environment.ts'
import { findImage, imageList, repositoryOf } from './images/registry.ts'
import { LogBuffer, type OutputReader } from './log-buffer.ts'
import type { Container, ContainerState, ContainerStatus, NodeContext, PodSandbox } from './objects.ts'

const firstDelayMs = 10_000
const longestDelayMs = 300_000

/**
 * The kubelet's delay before a container is started again: none after the first end, then 10 s, doubled up to five minutes. A container
 * that ran for ten minutes begins again.
 */
export class RestartBackoff {
  private delayMs = 0
  private lastEnd = 0

  /** Milliseconds to wait after a run has ended; zero means start immediately. */
  next(now: number): number {
    const ranMs = now - this.lastEnd - this.delayMs
    if (ranMs > 2 * longestDelayMs) this.delayMs = 0
    const wait = this.lastEnd === 0 ? 0 : this.delayMs
    this.delayMs = this.delayMs === 0 ? firstDelayMs : Math.min(this.delayMs * 2, longestDelayMs)
    this.lastEnd = now
    return wait
  }
}

/** A delay as Go prints durations: `10s`, `1m20s`, `5m0s`. */
export function goDuration(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000)
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`
}

const digest = (text: string) => createHash('sha256').update(text).digest('hex')

/** Manages one container of a Pod through all its runs. */
export class ContainerWorker {
  container: Container
  status: ContainerStatus
  running: RunningContainer | undefined
  log: LogBuffer | undefined
  previousLog: LogBuffer | undefined
  private readonly node: NodeContext
  private readonly sandbox: PodSandbox
  private readonly changed: () => void
  private readonly fieldPath: string
  private readonly target: (() => number | undefined) | undefined
  private readonly backoff = new RestartBackoff()
  private readonly stopping = new AbortController()
  private runs = 0
  private attached: LogBuffer | undefined
  private stopProbes: () => void = () => {}
  private wake: () => void = () => {}

  constructor(
    node: NodeContext,
    sandbox: PodSandbox,
    container: Container,
    field: 'initContainers' | 'containers' | 'ephemeralContainers',
    changed: () => void,
    target?: () => number | undefined,
  ) {
    this.node = node
    this.sandbox = sandbox
    this.container = container
    this.changed = changed
    this.target = target
    this.fieldPath = `spec.${field}{${container.name}}`
    this.status = {
      name: container.name,
      image: container.image ?? '',
      imageID: '',
      ready: false,
      started: false,
      restartCount: 0,
      state: { waiting: { reason: 'PodInitializing' } },
      lastState: {},
    }
  }

  /**
   * Runs the container and restarts it according to the policy. Resolves with the last exit code, or undefined if it was
   * stopped.
   */
  async run(policy: string): Promise<number | undefined> {
    while (!this.stopping.signal.aborted) {
      const exitCode = await this.once()
      if (this.stopping.signal.aborted) return undefined
      if (exitCode !== undefined && (policy === 'Never' || (policy === 'OnFailure' && exitCode === 0))) return exitCode
      await this.pause(exitCode !== undefined)
      if (exitCode !== undefined) this.status.restartCount++
    }
    return undefined
  }

  /** The image of a running Pod may change; a waiting container retries immediately. */
  replace(container: Container): void {
    if (container.image === this.container.image) return
    this.container = container
    this.status.image = container.image ?? ''
    if (this.running) {
      const { name } = container
      this.event('Normal', 'Killing', `Container ${name} definition changed, will be restarted`)
      void this.end()
    } else this.wake()
  }

  /**
   * Attaches to its further output, and to its input if that is open. The first client of a container with an open input
   * also gets the earlier output, such as the prompt. Undefined if it does not run and no output is left for that
   * client.
   */
  attach(): GuestProcess | undefined {
    const { running, log, container } = this
    const first = container.stdin === true && log !== this.attached
    if (!log || !(running || first)) return undefined
    this.attached = log
    const [stdout, stderr] = [new PassThrough(), new PassThrough()]
    const input = running?.process?.stdin
    const exited = new Promise<{ code: number; signal: null }>((resolve) => {
      const reader: OutputReader = {
        chunk: (stream, text) => (stream === 'stdout' ? stdout : stderr).write(text),
        end: () => resolve({ code: 0, signal: null }),
      }
      if (first) log.replay(reader)
      stdout.on('close', log.read(reader))
    })
    void exited.then(() => [stdout, stderr].map((output) => output.end()))
    return {
      pid: 0,
      stdin: new Writable({
        write: (bytes: Buffer, encoding, done) =>
          input?.writable ? input.write(bytes, encoding, () => done()) : done(),
        final: (done) => (container.stdinOnce ? input?.end(done) : done()),
      }),
      stdout,
      stderr,
      exited,
      kill: () => [stdout, stderr].map((output) => output.destroy()),
      resize: (columns, rows) => running?.process?.resize(columns, rows),
    }
  }

  /** Ends the container according to its lifecycle and does not restart it. `kill` ends it immediately. */
  async stop(): Promise<void> {
    this.stopping.abort()
    this.wake()
    if (!this.running) return
    this.event('Normal', 'Killing', `Stopping container ${this.container.name}`)
    await this.end()
  }

  kill(): void {
    this.stopping.abort()
    this.wake()
    this.running?.signal('SIGKILL')
  }

  private async end(): Promise<void> {
    if (!this.running) return
    this.stopProbes()
    const image = findImage(this.container.image ?? '')
    this.running.signal((image && !('start' in image) && image.stopSignal) || 'SIGTERM')
    await this.running.exited
  }

  /** One run from the image to its end. Undefined when it could not be started. */
  private async once(): Promise<number | undefined> {
    const start = await this.create()
    if (!start) return undefined
    const { name } = this.container
    const log = new LogBuffer()
    const containerID = `embedded://${digest(`${this.sandbox.pod.metadata.uid} ${name} ${this.runs}`)}`
    this.runs++
    this.event('Normal', 'Created', `Created container: ${name}`)
    this.previousLog = this.log
    this.log = log
    const startedAt = timestamp()
    try {
      this.running = await start(log, this.target?.())
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      this.event('Warning', 'Failed', `Error: ${message}`)
      const failed = { exitCode: 128, reason: 'StartError', message, startedAt: '1970-01-01T00:00:00Z' }
      return this.ended(log, { ...failed, containerID })
    }
    this.event('Normal', 'Started', `Started container ${name}`)
    if (this.stopping.signal.aborted) void this.end()
    const imageID = `${repositoryOf(this.container.image ?? '')}@sha256:${digest(this.container.image ?? '')}`
    Object.assign(this.status, { containerID, imageID, state: { running: { startedAt } } })
    return this.follow(this.running, log, startedAt, containerID)
  }

  private async follow(running: RunningContainer, log: LogBuffer, startedAt: string, containerID: string) {
    const { node, container, sandbox } = this
    this.stopProbes = startProbes(
      { node, container, podIP: sandbox.podIP, running },
      {
        ready: (ready) => this.report({ ready }),
        started: (started) => this.report({ started }),
        event: (reason, message) => this.event('Warning', reason, message),
        restart: (message) => {
          this.event('Normal', 'Killing', message)
          void this.restart(running)
        },
      },
    )
    const { exitCode, signal } = await running.exited
    this.stopProbes()
    const reason = exitCode === 0 ? 'Completed' : 'Error'
    return this.ended(log, { exitCode, ...(signal && { signal }), reason, startedAt, containerID })
  }

  private ended(log: LogBuffer, terminated: NonNullable<ContainerState['terminated']>): number {
    log.end()
    this.running = undefined
    const state = { terminated: { ...terminated, finishedAt: timestamp() } }
    this.report({ ready: false, started: false, containerID: terminated.containerID, state })
    return terminated.exitCode
  }

  private async restart(running: RunningContainer): Promise<void> {
    const grace = (this.sandbox.pod.spec.terminationGracePeriodSeconds ?? 30) * 1000
    const timer = setTimeout(() => running.signal('SIGKILL'), grace)
    await this.end()
    clearTimeout(timer)
  }

  private report(change: Partial<ContainerStatus>): void {
    Object.assign(this.status, change)
    this.changed()
  }

  private async create(): Promise<StartContainer | undefined> {
    const { node, sandbox, container } = this
    const { image: reference = '' } = container
    const image = findImage(reference)
    if (!image) return this.noImage(reference)
    this.event('Normal', 'Pulled', `Container image "${reference}" already present on machine`)
    try {
      return await createContainer(node, { ...sandbox, container }, image, this.runs)
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      const reason = error instanceof ContainerConfigError ? 'CreateContainerConfigError' : 'CreateContainerError'
      this.event('Warning', 'Failed', `Error: ${message}`)
      this.wait(reason, message)
      return undefined
    }
  }

  private noImage(reference: string): undefined {
    const there = `this cluster has no registry, only these images in their usual tags: ${imageList().join(', ')}`
    const why = `Failed to pull image "${reference}": not found; ${there}`
    if (this.status.state?.waiting?.reason === 'ErrImagePull') {
      this.event('Normal', 'BackOff', `Back-off pulling image "${reference}": ErrImagePull: ${why}`)
      this.event('Warning', 'Failed', 'Error: ImagePullBackOff')
      this.wait('ImagePullBackOff', `Back-off pulling image "${reference}": ErrImagePull: ${there}`)
      return
    }
    this.event('Normal', 'Pulling', `Pulling image "${reference}"`)
    this.event('Warning', 'Failed', why)
    this.event('Warning', 'Failed', 'Error: ErrImagePull')
    this.wait('ErrImagePull', why)
  }

  private wait(reason: string, message: string): void {
    this.report({ state: { waiting: { reason, message } } })
  }

  /** Waits before the next attempt: the restart delay after an end, the kubelet's sync period after a failed start. */
  private async pause(ended: boolean): Promise<void> {
    const { name, namespace, uid } = this.sandbox.pod.metadata
    const { state } = this.status
    const milliseconds = ended ? this.backoff.next(Date.now()) : 10_000
    if (ended && state?.terminated) this.status.lastState = { terminated: state.terminated }
    if (milliseconds === 0) return
    if (ended) {
      const [container, pod] = [this.container.name, `${name}_${namespace}(${uid})`]
      this.event('Warning', 'BackOff', `Back-off restarting failed container ${container} in pod ${pod}`)
      const failed = `restarting failed container=${container} pod=${pod}`
      this.wait('CrashLoopBackOff', `back-off ${goDuration(milliseconds)} ${failed}`)
    }
    const woken = new AbortController()
    this.wake = () => woken.abort()
    if (this.stopping.signal.aborted) return
    await delay(milliseconds, undefined, { signal: woken.signal }).catch(() => {})
    this.wake = () => {}
  }

  private event(type: 'Normal' | 'Warning', reason: string, message: string): void {
    this.node.events.event(this.sandbox.pod, type, reason, message, this.fieldPath)
  }
}
