import { createHash } from 'node:crypto'
import { PassThrough } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import { messageOf } from '../apiserver/status-error.ts'
import type { GuestProcess, ProcessEnd } from '../machine/machine.ts'
import { startProbes } from './container-probes.ts'
import { type RunningContainer, startContainer } from './container-process.ts'
import { containerEnvironment } from './environment.ts'
import { findImage, type Image, imageList, repositoryOf } from './images/registry.ts'
import { LogBuffer, type OutputReader, roomIn } from './log-buffer.ts'
import type {
  Container,
  ContainerContext,
  ContainerState,
  ContainerStatus,
  NodeContext,
  PodSandbox,
} from './objects.ts'
import { runPreStop } from './pre-stop.ts'

/**
 * The kubelet's delay before a restart: none at first and after a run of ten minutes, then 10 s,
 * doubled up to five minutes.
 */
export function restartDelayMs(earlierEnds: number, ranMs: number): number {
  if (earlierEnds === 0 || ranMs > 600_000) return 0
  return Math.min(10_000 * 2 ** (earlierEnds - 1), 300_000)
}

/** Between attempts to start a container that can't be created: the kubelet's sync period. */
const createRetryMs = 10_000

/** A delay as Go prints durations: `10s`, `1m20s`, `5m0s`. */
export function goDuration(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000)
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`
}

const digest = (text: string) => createHash('sha256').update(text).digest('hex')

/** Manages one container of a Pod through all its runs. */
export class ContainerWorker {
  container: Container
  readonly status: ContainerStatus
  running: RunningContainer | undefined
  log: LogBuffer | undefined
  previousLog: LogBuffer | undefined
  readonly #node: NodeContext
  readonly #sandbox: PodSandbox
  readonly #changed: () => void
  readonly #fieldPath: string
  readonly #target: (() => number | undefined) | undefined
  readonly #stopping = new AbortController()
  #killed = false
  /** Ends a wait for the next attempt. */
  #woken = new AbortController()
  /** Ends since the last restart without a delay. */
  #ends = 0
  #startedMs = 0
  #setStarted: () => void = () => {}
  /**
   * Resolves once a run has started, with a startup probe once that has passed; also when the
   * container is stopped before.
   */
  readonly started = new Promise<void>((resolve) => {
    this.#setStarted = resolve
  })
  #attached: LogBuffer | undefined
  /** The run that was asked to end. */
  #endingRun: RunningContainer | undefined
  #stopProbes: () => void = () => {}

  constructor(
    node: NodeContext,
    sandbox: PodSandbox,
    container: Container,
    field: 'initContainers' | 'containers' | 'ephemeralContainers',
    changed: () => void,
    target?: () => number | undefined,
  ) {
    this.#node = node
    this.#sandbox = sandbox
    this.container = container
    this.#changed = changed
    this.#target = target
    this.#fieldPath = `spec.${field}{${container.name}}`
    this.#stopping.signal.addEventListener('abort', () => this.#setStarted())
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
   * Runs the container and restarts it according to the policy. Resolves with the last exit code,
   * or undefined if it was stopped.
   */
  async run(policy: string): Promise<number | undefined> {
    while (!this.#stopping.signal.aborted) {
      const exitCode = await this.#once()
      if (this.#stopping.signal.aborted) return undefined
      if (exitCode === undefined) await this.#pause(createRetryMs)
      else if (policy === 'Never' || (policy === 'OnFailure' && exitCode === 0)) return exitCode
      else {
        await this.#backOff()
        if (!this.#stopping.signal.aborted) this.status.restartCount++
      }
    }
    return undefined
  }

  /** The image of a running Pod may change; a waiting container retries immediately. */
  replace(container: Container): void {
    if (container.image === this.container.image) return
    this.container = container
    this.status.image = container.image ?? ''
    this.#woken.abort()
    if (this.running) void this.#replaceRun()
  }

  /**
   * Attaches to its further output and its open input, whose first client also gets the earlier
   * output, such as the prompt.
   */
  attach(): GuestProcess | undefined {
    const { running, log, container } = this
    const first = container.stdin === true && log !== this.#attached
    if (!log || !(running || first)) return undefined
    this.#attached = log
    const [stdout, stderr] = [new PassThrough(), new PassThrough()]
    const input = running?.process?.stdin
    const exited = new Promise<ProcessEnd>((resolve) => {
      const outputs = {
        stdout: { out: stdout, room: roomIn(stdout) },
        stderr: { out: stderr, room: roomIn(stderr) },
      }
      const reader: OutputReader = {
        chunk(stream, text) {
          const { out, room } = outputs[stream]
          if (room()) out.write(text)
        },
        end: () => resolve({ exitCode: 0 }),
      }
      if (first) log.replay(reader)
      stdout.on('close', log.read(reader))
    })
    void exited.then(() => [stdout, stderr].map((output) => output.end()))
    const stdin = new PassThrough()
    if (input) stdin.pipe(input, { end: container.stdinOnce === true })
    else stdin.resume()
    return {
      pid: 0,
      stdin,
      stdout,
      stderr,
      exited,
      kill: () => [stdout, stderr].map((output) => output.destroy()),
      resize: (columns, rows) => running?.process?.resize(columns, rows),
    }
  }

  /**
   * Ends the container according to its lifecycle and does not restart it. `kill` ends it
   * immediately.
   */
  async stop(): Promise<void> {
    this.#stopping.abort()
    if (!this.running) return
    this.#event('Normal', 'Killing', `Stopping container ${this.container.name}`)
    await this.#end()
  }

  kill(): void {
    this.#stopping.abort()
    this.#killed = true
    this.running?.kill()
  }

  /**
   * Its preStop hook, then the signal of its image. Readiness is probed until then, liveness no
   * longer restarts it.
   */
  async #end(): Promise<void> {
    const { running } = this
    if (!running) return
    if (this.#endingRun !== running) {
      this.#endingRun = running
      await this.#preStop(running)
      if (this.running === running) this.#stopProbes()
      running.stop()
    }
    await running.exited
  }

  async #preStop(running: RunningContainer): Promise<void> {
    const { pod, podIP } = this.#sandbox
    const { deletionGracePeriodSeconds } = pod.metadata
    const graceSeconds = deletionGracePeriodSeconds ?? pod.spec.terminationGracePeriodSeconds ?? 30
    const { container } = this
    try {
      await runPreStop({ node: this.#node, container, podIP, running, graceSeconds })
    } catch (error) {
      this.#event('Warning', 'FailedPreStopHook', `PreStopHook failed: ${messageOf(error)}`)
    }
  }

  /** One run from the image to its end. Undefined when it could not be created. */
  async #once(): Promise<number | undefined> {
    const node = this.#node
    const sandbox = this.#sandbox
    const { container, status } = this
    const context = { ...sandbox, container }
    const reference = container.image ?? ''
    const image = this.#pull(reference)
    const env = image && this.#environment(context)
    if (!image || !env) return undefined
    this.#event('Normal', 'Created', `Created container: ${container.name}`)
    const run = status.restartCount
    const containerID = `embedded://${digest(`${sandbox.pod.metadata.uid} ${container.name} ${run}`)}`
    this.previousLog = this.log
    const log = new LogBuffer()
    this.log = log
    const startedAt = timestamp()
    this.#startedMs = Date.now()
    try {
      this.running = await startContainer(node, context, {
        image,
        run,
        env,
        log,
        target: this.#target?.(),
      })
    } catch (error) {
      const message = messageOf(error)
      this.#event('Warning', 'Failed', `Error: ${message}`)
      const failed = {
        exitCode: 128,
        reason: 'StartError',
        message,
        startedAt: '1970-01-01T00:00:00Z',
      }
      return this.#ended(log, { ...failed, containerID })
    }
    this.#event('Normal', 'Started', `Started container ${container.name}`)
    const imageID = `${repositoryOf(reference)}@sha256:${digest(reference)}`
    Object.assign(status, { containerID, imageID, state: { running: { startedAt } } })
    this.#watch(container, this.running)
    const { exitCode, signal } = await this.running.exited
    this.#stopProbes()
    const reason = exitCode === 0 ? 'Completed' : 'Error'
    return this.#ended(log, { exitCode, signal, reason, startedAt, containerID })
  }

  /**
   * The environment of a run; undefined if an object that it names is missing, which event and
   * status report.
   */
  #environment(context: ContainerContext): Record<string, string> | undefined {
    try {
      return containerEnvironment(this.#node.api, context)
    } catch (error) {
      this.#event('Warning', 'Failed', `Error: ${messageOf(error)}`)
      this.#wait('CreateContainerConfigError', messageOf(error))
      return undefined
    }
  }

  /** Starts the probes of a run, and does what was asked for while it was started. */
  #watch(container: Container, running: RunningContainer): void {
    const node = this.#node
    const sandbox = this.#sandbox
    this.#stopProbes = startProbes(
      { node, container, podIP: sandbox.podIP, running },
      {
        report: (change) => this.#report(change),
        unhealthy: (message) => this.#event('Warning', 'Unhealthy', message),
        restart: (message) => {
          if (this.#endingRun !== running) void this.#restart(message)
        },
      },
    )
    if (this.#killed) running.kill()
    else if (this.#stopping.signal.aborted) void this.#end()
    else if (this.container !== container) void this.#replaceRun()
  }

  #ended(log: LogBuffer, terminated: NonNullable<ContainerState['terminated']>): number {
    log.end()
    this.running = undefined
    const state = { terminated: { ...terminated, finishedAt: timestamp() } }
    this.#report({ ready: false, started: false, containerID: terminated.containerID, state })
    return terminated.exitCode
  }

  /**
   * Ends the current run, after the Pod's grace period by force; the policy then starts the next
   * one.
   */
  async #restart(message: string): Promise<void> {
    this.#event('Normal', 'Killing', message)
    const { running } = this
    const grace = (this.#sandbox.pod.spec.terminationGracePeriodSeconds ?? 30) * 1000
    const timer = setTimeout(() => running?.kill(), grace)
    await this.#end()
    clearTimeout(timer)
  }

  #replaceRun(): Promise<void> {
    return this.#restart(`Container ${this.container.name} definition changed, will be restarted`)
  }

  #report(change: Partial<ContainerStatus>): void {
    Object.assign(this.status, change)
    if (change.started) this.#setStarted()
    this.#changed()
  }

  /**
   * The image of a reference; undefined if there is none, which events and status report as the
   * kubelet does.
   */
  #pull(reference: string): Image | undefined {
    const image = findImage(reference)
    if (image) {
      this.#event('Normal', 'Pulled', `Container image "${reference}" already present on machine`)
      return image
    }
    const there = `this cluster has no registry, only these images in their usual tags: ${imageList().join(', ')}`
    const why = `Failed to pull image "${reference}": not found; ${there}`
    if (this.status.state?.waiting?.reason === 'ErrImagePull') {
      this.#event(
        'Normal',
        'BackOff',
        `Back-off pulling image "${reference}": ErrImagePull: ${why}`,
      )
      this.#event('Warning', 'Failed', 'Error: ImagePullBackOff')
      this.#wait(
        'ImagePullBackOff',
        `Back-off pulling image "${reference}": ErrImagePull: ${there}`,
      )
    } else {
      this.#event('Normal', 'Pulling', `Pulling image "${reference}"`)
      this.#event('Warning', 'Failed', why)
      this.#event('Warning', 'Failed', 'Error: ErrImagePull')
      this.#wait('ErrImagePull', why)
    }
    return undefined
  }

  #wait(reason: string, message: string): void {
    this.#report({ state: { waiting: { reason, message } } })
  }

  /** Waits after an end before the container is started again. */
  async #backOff(): Promise<void> {
    const { status, container } = this
    const { name, namespace, uid } = this.#sandbox.pod.metadata
    status.lastState = { terminated: status.state?.terminated }
    const milliseconds = restartDelayMs(this.#ends, Date.now() - this.#startedMs)
    this.#ends = milliseconds === 0 ? 1 : this.#ends + 1
    if (milliseconds === 0) return
    const pod = `${name}_${namespace}(${uid})`
    this.#event(
      'Warning',
      'BackOff',
      `Back-off restarting failed container ${container.name} in pod ${pod}`,
    )
    const failed = `restarting failed container=${container.name} pod=${pod}`
    this.#wait('CrashLoopBackOff', `back-off ${goDuration(milliseconds)} ${failed}`)
    await this.#pause(milliseconds)
  }

  async #pause(milliseconds: number): Promise<void> {
    this.#woken = new AbortController()
    const signal = AbortSignal.any([this.#stopping.signal, this.#woken.signal])
    await delay(milliseconds, undefined, { signal }).catch(() => {})
  }

  #event(type: 'Normal' | 'Warning', reason: string, message: string): void {
    this.#node.events.event(this.#sandbox.pod, type, reason, message, this.#fieldPath)
  }
}
