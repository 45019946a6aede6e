import { setTimeout as delay } from 'node:timers/promises'
import { httpRequest, httpStatus, type ProbeResult } from '../network/prober.ts'
import { commandNotFound, type RunningContainer } from './container-process.ts'
import type { Container, NodeContext, Probe } from './objects.ts'

/** Receives what the probes of one run of a container find. */
interface ProbeOutcome {
  report(change: { ready?: boolean; started?: boolean }): void
  unhealthy(message: string): void
  restart(message: string): void
}

/** A run of a container that is probed. */
interface ContainerProbeTarget {
  node: NodeContext
  container: Container
  podIP: string
  running: RunningContainer
}

/**
 * Starts the probes of one run of a container: readiness and liveness wait for the startup probe.
 * Returns a function that ends them.
 */
export function startProbes(target: ContainerProbeTarget, outcome: ProbeOutcome): () => void {
  const { startupProbe, livenessProbe, readinessProbe, name } = target.container
  const stopping = new AbortController()
  const { signal } = stopping
  const wait = (ms: number) => delay(Math.max(0, ms), undefined, { signal }).catch(() => {})

  /**
   * Repeats a probe, from the initial delay on (pkg/kubelet/prober/worker.go). Yields its result
   * when a threshold changes it.
   */
  async function* results(kind: string, probe: Probe): AsyncGenerator<boolean> {
    await wait((probe.initialDelaySeconds ?? 0) * 1000)
    const streak = new ProbeStreak(probe)
    while (!signal.aborted) {
      const begun = Date.now()
      const failure = await runProbe(probe, target)
      if (signal.aborted) return
      const success = failure === undefined
      if (!success) outcome.unhealthy(`${kind} probe failed: ${failure}`)
      if (streak.add(success)) yield success
      await wait(begun + (probe.periodSeconds ?? 10) * 1000 - Date.now())
    }
  }
  const restart = (kind: string) =>
    outcome.restart(`Container ${name} failed ${kind} probe, will be restarted`)
  const watchLiveness = async () => {
    if (livenessProbe)
      for await (const success of results('Liveness', livenessProbe))
        if (!success) restart('liveness')
  }
  const run = async () => {
    if (startupProbe) {
      outcome.report({ started: false })
      const { value: success } = await results('Startup', startupProbe).next()
      if (success === false) restart('startup')
      if (!success) return
    }
    outcome.report({ started: true, ready: !readinessProbe })
    void watchLiveness()
    if (readinessProbe)
      for await (const ready of results('Readiness', readinessProbe)) outcome.report({ ready })
  }
  void run()
  return () => stopping.abort()
}

/** Counts equal results of a probe in a row. */
class ProbeStreak {
  readonly #probe: Probe
  #length = 0
  #last: boolean | undefined
  #reported: boolean | undefined

  constructor(probe: Probe) {
    this.#probe = probe
  }

  /** Counts a result. Returns true if it is reported: its threshold is reached, and it is new. */
  add(success: boolean): boolean {
    const { successThreshold = 1, failureThreshold = 3 } = this.#probe
    this.#length = success === this.#last ? this.#length + 1 : 1
    this.#last = success
    if (this.#length < (success ? successThreshold : failureThreshold)) return false
    if (success === this.#reported) return false
    this.#reported = success
    return true
  }
}

/** Undefined if the probe succeeded, else the kubelet's message. */
type ProbeFailure = string | undefined

/**
 * The number of a port, which may be the name of a container's port. Throws if the name does not
 * exist.
 */
function portNumber(port: number | string, container: Container): number {
  if (typeof port === 'number') return port
  const named = container.ports?.find(({ name }) => name === port)?.containerPort
  if (named === undefined) throw new Error(`couldn't find port: "${port}"`)
  return named
}

function httpFailure(answer: ProbeResult, url: string, address: string): ProbeFailure {
  if (answer.kind === 'refused')
    return `Get "${url}": dial tcp ${address}: connect: connection refused`
  if (answer.kind !== 'line')
    return `Get "${url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`
  const status = httpStatus(answer.line)
  if (!status)
    return `Get "${url}": net/http: HTTP/1.x transport connection broken: malformed HTTP response`
  return status >= 200 && status < 400 ? undefined : `HTTP probe failed with statuscode: ${status}`
}

/**
 * Runs one probe (pkg/probe: a status from 200 to 399, an open port, or exit code 0 of a command is
 * a success).
 */
async function runProbe(probe: Probe, target: ContainerProbeTarget): Promise<ProbeFailure> {
  const { node, container, podIP, running } = target
  const seconds = probe.timeoutSeconds ?? 1
  try {
    if (probe.httpGet) {
      const { host = podIP, path = '/', scheme = 'HTTP', httpHeaders } = probe.httpGet
      const port = portNumber(probe.httpGet.port as number | string, container)
      const address = `${host}:${port}`
      const answer = await node.prober.try(
        host,
        port,
        seconds,
        httpRequest(path, address, httpHeaders),
      )
      return httpFailure(answer, `${scheme.toLowerCase()}://${address}${path}`, address)
    }
    if (probe.tcpSocket) {
      const { host = podIP } = probe.tcpSocket
      const port = portNumber(probe.tcpSocket.port as number | string, container)
      const { kind } = await node.prober.try(host, port, seconds)
      if (kind === 'open') return undefined
      return `dial tcp ${host}:${port}: ${kind === 'refused' ? 'connect: connection refused' : 'i/o timeout'}`
    }
    if (!probe.exec) return undefined
    const { command = [] } = probe.exec
    if (!running.placement) return commandNotFound(command)
    const { exitCode, stdout, stderr } = await node.machine.run(command, running.placement, {
      timeoutMs: seconds * 1000,
    })
    return exitCode === 0 ? undefined : `${stdout}${stderr}`
  } catch (error) {
    if (probe.exec)
      return `command timed out: "${probe.exec.command?.join(' ')}" timed out after ${seconds}s`
    return error instanceof Error ? error.message : String(error)
  }
}
