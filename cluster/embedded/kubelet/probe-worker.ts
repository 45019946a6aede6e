import type { Probe } from './objects.ts'
import type { ProbeFailure } from './probe.ts'

/** What a probe is about to say. `failure` is told for every single failure, `result` when a threshold is reached. */
export interface ProbeListener {
  failure(message: string): void
  result(success: boolean): void
}

/** Runs one probe of one container again and again, and counts (pkg/kubelet/prober/worker.go). */
export class ProbeWorker {
  private readonly probe: Probe
  private readonly run: () => Promise<ProbeFailure>
  private readonly listener: ProbeListener
  private timer: NodeJS.Timeout | undefined
  private stopped = false
  private last: boolean | undefined
  private streak = 0

  constructor(probe: Probe, run: () => Promise<ProbeFailure>, listener: ProbeListener) {
    this.probe = probe
    this.run = run
    this.listener = listener
  }

  /** The first probe comes after the initial delay. */
  start(): void {
    this.timer = setTimeout(() => void this.turn(), (this.probe.initialDelaySeconds ?? 0) * 1000)
  }

  stop(): void {
    this.stopped = true
    clearTimeout(this.timer)
  }

  private async turn(): Promise<void> {
    const begun = Date.now()
    const failure = await this.run()
    if (this.stopped) return
    this.count(failure)
    const periodMs = (this.probe.periodSeconds ?? 10) * 1000
    if (!this.stopped) this.timer = setTimeout(() => void this.turn(), Math.max(0, begun + periodMs - Date.now()))
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
