import type { RunningContainer } from './container-process.ts'
import type { PodSandbox } from './container-start.ts'
import type { NodeContext } from './node-context.ts'
import type { Container, Probe } from './objects.ts'
import { runProbe } from './probe.ts'
import { ProbeWorker } from './probe-worker.ts'

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
