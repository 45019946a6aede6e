import type { Api } from '../apiserver/api.ts'
import type { EventRecorder } from '../controllers/events.ts'
import type { Machine } from '../machine/machine.ts'
import type { NodePlan } from '../network/node-setup.ts'
import type { PodLink } from '../network/pod-link.ts'
import type { Prober } from '../network/prober.ts'
import type { Network } from '../network/topology.ts'
import type { Container, Pod } from './objects.ts'

/** What all parts of one node's kubelet share. */
export interface NodeContext {
  readonly machine: Machine
  readonly network: Network
  readonly api: Api
  readonly node: NodePlan
  readonly events: EventRecorder
  readonly prober: Prober
}

/** A Pod on its node. `link` is absent for Pods with hostNetwork. */
export interface PodSandbox {
  pod: Pod
  /** Name of the node. */
  node: string
  podIP: string
  hostIP: string
  link?: PodLink | undefined
}

/** A container in its Pod. */
export interface ContainerContext extends PodSandbox {
  container: Container
}
