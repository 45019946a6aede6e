import { OUTSIDE } from '../../host/outside.ts'
import type { NodeBackend } from '../apiserver/node-backend.ts'
import { resourceNamed } from '../apiserver/resource.ts'
import { badRequest, notFound, StatusError } from '../apiserver/status-error.ts'
import { syncedOn } from '../kube-proxy/running-kube-proxy.ts'
import type { Machine } from '../machine/machine.ts'
import type { Network } from '../network/topology.ts'
import { notFound as noProgram } from './container-process.ts'
import type { ContainerWorker } from './container-worker.ts'
import { logStream } from './log-stream.ts'
import type { PodWorker } from './pod-worker.ts'
import { measureUsage } from './usage.ts'

/** Longer than anybody who asks for a script waits for it. */
const scriptDeadlineMs = 300_000

function named(worker: PodWorker | undefined, pod: string, container?: string): ContainerWorker {
  if (!worker) throw notFound(resourceNamed('pods'), pod)
  const names = worker.containers.map((one) => one.container.name)
  const chosen = worker.container(container)
  if (!chosen) throw badRequest(`container ${container} is not valid for pod ${pod}`)
  const annotated = worker.pod.metadata.annotations?.['kubectl.kubernetes.io/default-container']
  if (container === undefined && annotated === undefined && names.length > 1)
    throw badRequest(`a container name must be specified for pod ${pod}, choose one of: [${names.join(' ')}]`)
  return chosen
}

const containerNotFound = (name: string) =>
  new StatusError(500, 'InternalError', `unable to upgrade connection: container not found ("${name}")`)

/** What the API server requests from the kubelets: commands, connections and logs. */
export function createBackend(machine: Machine, network: Network, pods: ReadonlyMap<string, PodWorker>): NodeBackend {
  const find = (namespace: string, name: string) =>
    [...pods.values()].find(({ pod: { metadata } }) => metadata.namespace === namespace && metadata.name === name)
  const placementOf = (node: string) => {
    // The guest's own network, from which routes lead to load balancers' addresses.
    if (node === OUTSIDE) return {}
    if (!network.nodes.some(({ name }) => name === node)) throw notFound(resourceNamed('nodes'), node)
    return network.placement(node)
  }
  return {
    exec({ target, command, tty }) {
      if (target.kind === 'node') {
        const placement = placementOf(target.name)
        return (size) => machine.spawn(command, placement, { tty, ...(size && { size }) })
      }
      const { running, container } = named(find(target.namespace, target.name), target.name, target.container)
      if (!running) throw containerNotFound(container.name)
      const { placement } = running
      if (!placement)
        throw new StatusError(
          500,
          'InternalError',
          `OCI runtime exec failed: exec failed: ${noProgram(command)}: unknown`,
        )
      return (size) => machine.spawn(command, placement, { tty, ...(size && { size }) })
    },
    attach({ namespace, name, container }) {
      const process = named(find(namespace, name), name, container).attach()
      if (!process) throw containerNotFound(container)
      return async () => process
    },
    dial({ namespace, name }) {
      const worker = find(namespace, name)
      if (!worker) throw notFound(resourceNamed('pods'), name)
      const { link } = worker.sandbox
      const placement = link ? { netns: link.netns } : network.placement(worker.pod.spec.nodeName ?? '')
      return (port) => machine.spawn(['socat', '-', `TCP4:127.0.0.1:${port}`], placement)
    },
    script: async (node, text) => machine.script(text, placementOf(node), { timeoutMs: scriptDeadlineMs }),
    usage: () =>
      measureUsage(
        machine,
        network.nodes.map(({ name }) => name),
        [...pods.values()],
      ),
    synced: (node) => syncedOn(machine, node),
    async logs(request) {
      const { name: container } = request
      const worker = named(find(request.namespace, request.name), request.name, request.container)
      const log = request.previous ? worker.previousLog : worker.log
      if (log) return logStream(log, request)
      const own = worker.container.name
      if (request.previous) throw badRequest(`previous terminated container "${own}" in pod "${container}" not found`)
      const reason = worker.status.state?.waiting?.reason ?? 'ContainerCreating'
      throw badRequest(`container "${own}" in pod "${container}" is waiting to start: ${reason}`)
    },
  }
}
