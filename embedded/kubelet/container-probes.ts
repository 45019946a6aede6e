import type { RunningContainer } from './container-process.ts'
import type { PodSandbox } from './container-start.ts'
import type { NodeContext } from './node-context.ts'
import type { Container, Probe } from './objects.ts'
import { type ProbeFailure, runProbe } from './probe.ts'

export interface ProbeOutcome {
  ready(ready: boolean): void
  started(started: boolean): void
  event(reason: string, message: string): void
  restart(message: string): void
}

/** The probes of one run of a container: readiness and liveness wait for the startup probe. */
export class ContainerProbes {
  private readonly workers: ProbeWorker[] = []
  private readonly container: Container
  private readonly outcome: ProbeOutcome
  private readonly failureOf: (probe: Probe) => Promise<string | undefined>
  private isReady: boolean | undefined

  constructor(
    node: NodeContext,
    sandbox: PodSandbox,
    container: Container,
    running: RunningContainer,
    outcome: ProbeOutcome,
  ) {
    this.container = container
    this.outcome = outcome
    const { machine, prober } = node
    this.failureOf = (probe) =>
      runProbe(probe, { machine, prober, container, podIP: sandbox.podIP, placement: running.placement })
  }

  start(): void {
    const { startupProbe, name } = this.container
    if (!startupProbe) {
      this.afterStart()
      return
    }
    this.outcome.started(false)
    this.watch('Startup', startupProbe, (success, worker) => {
      worker.stop()
      if (success) this.afterStart()
      else this.outcome.restart(`Container ${name} failed startup probe, will be restarted`)
    })
  }

  stop(): void {
    for (const worker of this.workers) worker.stop()
  }

  private afterStart(): void {
    const { livenessProbe, readinessProbe, name } = this.container
    this.outcome.started(true)
    if (readinessProbe) this.watch('Readiness', readinessProbe, (success) => this.setReady(success))
    else this.setReady(true)
    if (!livenessProbe) return
    this.watch('Liveness', livenessProbe, (success, worker) => {
      if (success) return
      worker.stop()
      this.outcome.restart(`Container ${name} failed liveness probe, will be restarted`)
    })
  }

  private setReady(ready: boolean): void {
    if (ready === this.isReady) return
    this.isReady = ready
    this.outcome.ready(ready)
  }

  private watch(kind: string, probe: Probe, result: (success: boolean, worker: ProbeWorker) => void): void {
    const worker: ProbeWorker = new ProbeWorker(probe, () => this.failureOf(probe), {
      failure: (message) => this.outcome.event('Unhealthy', `${kind} probe failed: ${message}`),
      result: (success) => result(success, worker),
    })
    this.workers.push(worker)
    worker.start()
  }
}

/** Receives the results of a probe: `failure` for every single failure, `result` when a threshold is reached. */
export interface ProbeListener {
  failure(message: string): void
  result(success: boolean): void
}

/**
 * The interval at which a probe that has not succeeded is repeated during its first second. The genuine kubelet waits for its period, which
 * is longer than the start of a small server. Probes that start a process also use their period.
 */
const eagerMs = 100

/** Runs one probe of one container periodically and counts its results (pkg/kubelet/prober/worker.go). */
export class ProbeWorker {
  private readonly probe: Probe
  private readonly run: () => Promise<ProbeFailure>
  private readonly listener: ProbeListener
  private timer: NodeJS.Timeout | undefined
  private stopped = false
  private last: boolean | undefined
  private streak = 0
  private eagerUntil = 0

  constructor(probe: Probe, run: () => Promise<ProbeFailure>, listener: ProbeListener) {
    this.probe = probe
    this.run = run
    this.listener = listener
  }

  /** The first probe runs after the initial delay. */
  start(): void {
    const delayMs = (this.probe.initialDelaySeconds ?? 0) * 1000
    if (!this.probe.exec) this.eagerUntil = Date.now() + delayMs + Math.min(this.periodMs, 1000) - eagerMs
    this.timer = setTimeout(() => void this.turn(), delayMs)
  }

  private get periodMs(): number {
    return (this.probe.periodSeconds ?? 10) * 1000
  }

  stop(): void {
    this.stopped = true
    clearTimeout(this.timer)
  }

  private async turn(): Promise<void> {
    const begun = Date.now()
    const failure = await this.run()
    if (this.stopped) return
    const eager = failure !== undefined && this.last === undefined && Date.now() < this.eagerUntil
    if (!eager) this.count(failure)
    const gapMs = eager ? eagerMs : this.periodMs
    if (!this.stopped) this.timer = setTimeout(() => void this.turn(), Math.max(0, begun + gapMs - Date.now()))
  }

  private count(failure: ProbeFailure): void {
    const success = failure === undefined
    this.streak = this.last === success ? this.streak + 1 : 1
    this.last = success
    if (failure !== undefined) this.listener.failure(failure)
    const threshold = (success ? this.probe.successThreshold : this.probe.failureThreshold) ?? (success ? 1 : 3)
    if (this.streak >= threshold) this.listener.result(success)
  }
}
