import { setTimeout as delay } from 'node:timers/promises'
import { type Answer, statusOf } from '../network/prober.ts'
import { notFound, type RunningContainer } from './container-process.ts'
import type { NodeContext } from './node-context.ts'
import type { Container, LifecycleHandler, Probe } from './objects.ts'

/** Undefined if the probe succeeded, else the kubelet's message. */
export type ProbeFailure = string | undefined

/** A run of a container that is probed. */
export interface ProbeTarget {
  node: NodeContext
  container: Container
  podIP: string
  running: RunningContainer
}

/** The number of a port, which may be the name of a container's port. Throws if the name does not exist. */
function portNumber(port: number | string, container: Container): number {
  if (typeof port === 'number') return port
  const named = container.ports?.find(({ name }) => name === port)?.containerPort
  if (named === undefined) throw new Error(`couldn't find port: "${port}"`)
  return named
}

function requestText(path: string, host: string, headers: { name: string; value: string }[] = []): string {
  const named = (wanted: string) => headers.some(({ name }) => name.toLowerCase() === wanted)
  const lines = [
    `GET ${path.startsWith('/') ? path : `/${path}`} HTTP/1.1`,
    ...(named('host') ? [] : [`Host: ${host}`]),
    ...(named('user-agent') ? [] : ['User-Agent: kube-probe/1.34']),
    ...(named('accept') ? [] : ['Accept: */*']),
    ...headers.map(({ name, value }) => `${name}: ${value}`),
    'Connection: close',
  ]
  return `${lines.join('\r\n')}\r\n\r\n`
}

function httpFailure(answer: Answer, url: string, address: string): ProbeFailure {
  if (answer.kind === 'refused') return `Get "${url}": dial tcp ${address}: connect: connection refused`
  if (answer.kind !== 'line')
    return `Get "${url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`
  const status = statusOf(answer.line)
  if (!status) return `Get "${url}": net/http: HTTP/1.x transport connection broken: malformed HTTP response`
  return status >= 200 && status < 400 ? undefined : `HTTP probe failed with statuscode: ${status}`
}

/**
 * Runs one probe (pkg/probe: a status from 200 to 399, an open port, or exit code 0 of a command is a
 * success).
 */
export async function runProbe(probe: Probe, target: ProbeTarget): Promise<ProbeFailure> {
  const { node, container, podIP, running } = target
  const seconds = probe.timeoutSeconds ?? 1
  try {
    if (probe.httpGet) {
      const { host = podIP, path = '/', scheme = 'HTTP', httpHeaders } = probe.httpGet
      const port = portNumber(probe.httpGet.port as number | string, container)
      const address = `${host}:${port}`
      const answer = await node.prober.try(host, port, seconds, requestText(path, address, httpHeaders))
      return httpFailure(answer, `${scheme.toLowerCase()}://${address}${path}`, address)
    }
    const socket = probe.tcpSocket ?? probe.grpc
    if (socket) {
      const host = probe.tcpSocket?.host ?? podIP
      const port = portNumber(socket.port as number | string, container)
      const { kind } = await node.prober.try(host, port, seconds)
      if (kind === 'open') return undefined
      return `dial tcp ${host}:${port}: ${kind === 'refused' ? 'connect: connection refused' : 'i/o timeout'}`
    }
    if (!probe.exec) return undefined
    const { command = [] } = probe.exec
    if (!running.placement) return notFound(command)
    const { exitCode, stdout, stderr } = await node.machine.run(command, running.placement, {
      timeoutMs: seconds * 1000,
    })
    return exitCode === 0 ? undefined : `${stdout}${stderr}`
  } catch (error) {
    if (probe.exec) return `command timed out: "${probe.exec.command?.join(' ')}" timed out after ${seconds}s`
    return error instanceof Error ? error.message : String(error)
  }
}

/** Runs a postStart or preStop handler. Resolves with the reason if it failed, or undefined. */
export async function runHandler(handler: LifecycleHandler, target: ProbeTarget): Promise<string | undefined> {
  const { exec, sleep, httpGet, tcpSocket } = handler
  if (exec) {
    const { command = [] } = exec
    const { placement } = target.running
    if (!placement) return notFound(command)
    const { exitCode, stdout, stderr } = await target.node.machine.run(command, placement)
    return exitCode === 0 ? undefined : `command '${command.join(' ')}' exited with ${exitCode}: ${stdout}${stderr}`
  }
  if (sleep) {
    await delay(sleep.seconds * 1000)
    return undefined
  }
  return runProbe({ timeoutSeconds: 30, ...(httpGet && { httpGet }), ...(tcpSocket && { tcpSocket }) }, target)
}
