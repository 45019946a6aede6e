import { setTimeout as delay } from 'node:timers/promises'
import { httpRequest, httpStatus } from '../network/prober.ts'
import { commandNotFound, type RunningContainer } from './container-process.ts'
import type { Container, NodeContext } from './objects.ts'

/** A run of a container that is about to be ended. */
interface StoppingRun {
  node: NodeContext
  container: Container
  podIP: string
  running: RunningContainer
  graceSeconds: number
}

/**
 * Runs the container's `lifecycle.preStop` before its program gets the stop signal
 * (pkg/kubelet/lifecycle/handlers.go). Resolves when the hook or the container has ended; the grace
 * period also counts for the hook. Rejects with the reason of a failed hook.
 */
export async function runPreStop(run: StoppingRun): Promise<void> {
  const { preStop } = run.container.lifecycle ?? {}
  if (!preStop) return
  const ended = new AbortController()
  const containerEnd = run.running.exited.then(() => ended.abort())
  await Promise.race([runHook(preStop, run, ended.signal), containerEnd])
}

type PreStop = NonNullable<NonNullable<Container['lifecycle']>['preStop']>

async function runHook(
  { exec, httpGet, sleep }: PreStop,
  { node, container, podIP, running, graceSeconds }: StoppingRun,
  signal: AbortSignal,
): Promise<void> {
  if (sleep) await delay(sleep.seconds * 1000, undefined, { signal }).catch(() => {})
  else if (exec) {
    const { command = [] } = exec
    if (!running.placement) throw new Error(commandNotFound(command))
    const { exitCode, stdout, stderr } = await node.machine.run(command, running.placement, {
      timeoutMs: Math.max(1, graceSeconds) * 1000,
    })
    if (exitCode !== 0)
      throw new Error(`Exec lifecycle hook exited with ${exitCode}: ${stdout}${stderr}`)
  } else if (httpGet) {
    const { host = podIP, path = '/', port, httpHeaders } = httpGet
    const named = container.ports?.find(({ name }) => name === String(port))?.containerPort
    const number = named ?? Number(port)
    const request = httpRequest(path, `${host}:${number}`, httpHeaders)
    const answer = await node.prober.try(host, number, Math.max(1, graceSeconds), request)
    const status = answer.kind === 'line' ? httpStatus(answer.line) : undefined
    if (status === undefined || status >= 400)
      throw new Error(`HTTP lifecycle hook of ${host}:${number}${path}: ${status ?? answer.kind}`)
  }
}
