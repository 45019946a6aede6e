import { basename } from 'node:path'
import { OUTSIDE } from '../../host/outside.ts'
import type { ContainerTarget, NodeBackend } from '../apiserver/api-call.ts'
import { resourceNamed } from '../apiserver/resource.ts'
import { badRequest, notFound, StatusError } from '../apiserver/status-error.ts'
import type { Machine } from '../machine/machine.ts'
import type { Network } from '../network/topology.ts'
import { commandNotFound as noProgram } from './container-process.ts'
import type { ContainerWorker } from './container-worker.ts'
import { logStream } from './log-buffer.ts'
import type { PodWorker } from './pod-worker.ts'
import { measureUsage } from './usage.ts'

/** Longer than the timeout of every caller. */
const scriptDeadlineMs = 300_000

const containerNotFound = (name: string) =>
  new StatusError('InternalError', `unable to upgrade connection: container not found ("${name}")`)

/** Implements the API server's requests to the kubelets: commands, connections and logs. */
export function createBackend(
  machine: Machine,
  network: Network,
  pods: ReadonlyMap<string, PodWorker>,
): NodeBackend {
  const podNamed = (namespace: string, name: string): PodWorker => {
    const isNamed = ({ pod: { metadata } }: PodWorker) =>
      metadata.namespace === namespace && metadata.name === name
    const worker = [...pods.values()].find(isNamed)
    if (!worker) throw notFound(resourceNamed('pods'), name)
    return worker
  }
  const containerIn = ({ namespace, name, container }: ContainerTarget): ContainerWorker => {
    const worker = podNamed(namespace, name).container(container)
    if (!worker) throw badRequest(`container ${container} is not valid for pod ${name}`)
    return worker
  }
  const placementOf = (node: string) => {
    // The guest's own network, from which routes lead to load balancers' addresses. Its /root is
    // this machine's, whose profile a login shell must not read.
    if (node === OUTSIDE) return { env: { HOME: '/run' } }
    if (!network.nodes.some(({ name }) => name === node))
      throw notFound(resourceNamed('nodes'), node)
    return network.placement(node)
  }
  const insideOf = (target: ContainerTarget, command: readonly string[]) => {
    const { running } = containerIn(target)
    if (!running) throw containerNotFound(target.container)
    if (running.placement) {
      const [program = '', ...args] = command
      const ofImage = running.programs?.[basename(program)]
      return { placement: running.placement, argv: ofImage ? [...ofImage, ...args] : command }
    }
    const reason = `OCI runtime exec failed: exec failed: ${noProgram(command)}: unknown`
    throw new StatusError('InternalError', reason)
  }
  return {
    exec({ target, command, tty }) {
      const { placement, argv } =
        target.kind === 'node'
          ? { placement: placementOf(target.name), argv: command }
          : insideOf(target, command)
      return (size) => machine.spawn(argv, placement, { tty, ...(size && { size }) })
    },
    attach(target) {
      const process = containerIn(target).attach()
      if (!process) throw containerNotFound(target.container)
      return async () => process
    },
    dial({ namespace, name }) {
      const { link, node } = podNamed(namespace, name).sandbox
      const placement = link ? { netns: link.netns } : network.placement(node)
      return (port) => machine.spawn(['socat', '-', `TCP4:127.0.0.1:${port}`], placement)
    },
    script: async (node, text) =>
      machine.script(text, placementOf(node), { timeoutMs: scriptDeadlineMs }),
    usage: () => measureUsage(machine, network.nodes, [...pods.values()]),
    async synced(node) {
      const here = [...pods.values()].filter(({ sandbox }) => sandbox.node === node)
      await Promise.all(
        here.flatMap(({ containers }) => containers.map(({ running }) => running?.synced?.())),
      )
    },
    async logs(request) {
      const { name, container, previous } = request
      const worker = containerIn(request)
      const log = previous ? worker.previousLog : worker.log
      if (log) return logStream(log, request)
      if (previous)
        throw badRequest(`previous terminated container "${container}" in pod "${name}" not found`)
      const reason = worker.status.state?.waiting?.reason ?? 'ContainerCreating'
      throw badRequest(`container "${container}" in pod "${name}" is waiting to start: ${reason}`)
    },
  }
}
