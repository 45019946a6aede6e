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

/** Longer than anybody who asks for a script waits for it. */
const scriptDeadlineMs = 300_000

type FindPod = (namespace: string, name: string) => PodWorker | undefined

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

/** What the API server asks of the kubelets: commands and logs. */
export function createBackend(machine: Machine, network: Network, find: FindPod): NodeBackend {
  const placementOf = (node: string) => {
    // The guest's own network, from which routes lead to load balancers' addresses.
    if (node === OUTSIDE) return {}
    if (!network.nodes.some(({ name }) => name === node)) throw notFound(resourceNamed('nodes'), node)
    return network.placement(node)
  }
  return {
    async exec({ target, command, tty }) {
      if (target.kind === 'node') return machine.spawn(command, placementOf(target.name), { tty })
      const worker = named(find(target.namespace, target.name), target.name, target.container)
      if (!worker.running)
        throw new StatusError(
          500,
          'InternalError',
          `unable to upgrade connection: container not found ("${worker.container.name}")`,
        )
      const { placement } = worker.running
      if (!placement)
        throw new StatusError(
          500,
          'InternalError',
          `OCI runtime exec failed: exec failed: ${noProgram(command)}: unknown`,
        )
      return machine.spawn(command, placement, { tty })
    },
    script: async (node, text) => machine.script(text, placementOf(node), { timeoutMs: scriptDeadlineMs }),
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
