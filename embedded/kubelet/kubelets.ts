import type { Api } from '../apiserver/api.ts'
import type { NodeBackend } from '../apiserver/node-backend.ts'
import { createEventRecorder } from '../controllers/events.ts'
import type { Machine } from '../machine/machine.ts'
import type { NodePlan } from '../network/node-plan.ts'
import type { Network } from '../network/topology.ts'
import { createBackend } from './backend.ts'
import { registerOwnImages } from './images/own-images.ts'
import type { NodeContext } from './node-context.ts'
import { guestFacts, registerNode, renewLease } from './node-object.ts'
import type { Pod } from './objects.ts'
import { PodWorker } from './pod-worker.ts'
import { Prober } from './prober.ts'
import { watchVolumes } from './volume-updates.ts'

export interface KubeletOptions {
  machine: Machine
  network: Network
  api: Api
  /** Control plane first. */
  nodes: readonly NodePlan[]
}

export interface Kubelets {
  backend: NodeBackend
  /** Ends every container at once and stops following the API. */
  stop(): Promise<void>
}

/** The kubelet's: a quarter of the 40 s that a Lease lasts. */
const leaseRenewalMs = 10_000

/** One kubelet a node: registers the Nodes, then runs the Pods that are bound to them. */
export async function startKubelets({ machine, network, api, nodes }: KubeletOptions): Promise<Kubelets> {
  registerOwnImages()
  const facts = await guestFacts(machine)
  const contexts = new Map<string, NodeContext>()
  const leases: NodeJS.Timeout[] = []
  for (const [index, node] of nodes.entries()) {
    const object = registerNode(api, node, facts, index === 0)
    const events = createEventRecorder(api, 'kubelet', node.name)
    const prober = new Prober(machine, network.placement(node.name))
    contexts.set(node.name, { machine, network, api, node, events, prober })
    renewLease(api, object)
    leases.push(setInterval(() => renewLease(api, object), leaseRenewalMs))
    events.event(object, 'Normal', 'NodeReady', `Node ${node.name} status is now: NodeReady`)
  }
  const pods = new Map<string, PodWorker>()
  const stopVolumes = watchVolumes(machine, api, () => pods.values())
  const unwatch = api.watch<Pod>('pods', (type, pod) => {
    const { uid } = pod.metadata
    const worker = pods.get(uid)
    if (type === 'DELETED') {
      pods.delete(uid)
      void worker?.terminate(0)
      return
    }
    if (worker) return worker.update(pod)
    const context = contexts.get(pod.spec.nodeName ?? '')
    const over = pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed'
    if (!context || over) return
    if (pod.metadata.deletionTimestamp)
      api.delete('pods', pod.metadata.namespace, pod.metadata.name, { gracePeriodSeconds: 0 })
    else pods.set(uid, new PodWorker(context, pod))
  })
  return {
    backend: createBackend(machine, network, pods),
    async stop() {
      for (const timer of leases) clearInterval(timer)
      unwatch()
      stopVolumes()
      await Promise.all([...pods.values()].map((worker) => worker.terminate(0)))
      await Promise.all([...contexts.values()].map(({ prober }) => prober.stop()))
    },
  }
}
