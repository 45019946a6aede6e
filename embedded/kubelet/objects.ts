import type { NodePlan } from '../../host/layout.ts'
import type { Api } from '../apiserver/api.ts'
import type { EventRecorder } from '../controllers/events.ts'
import type { Pod } from '../controllers/resources.ts'
import type { Machine } from '../machine/machine.ts'
import type { Prober } from '../network/prober.ts'
import type { Network, PodLink } from '../network/topology.ts'

export type { ConfigMap, NodeObject, Pod } from '../controllers/resources.ts'
export type Container = Pod['spec']['containers'][number]
export type PodStatus = NonNullable<Pod['status']>
export type ContainerStatus = NonNullable<PodStatus['containerStatuses']>[number]
export type ContainerState = NonNullable<ContainerStatus['state']>
export type Probe = NonNullable<Container['readinessProbe']>
export type Volume = NonNullable<Pod['spec']['volumes']>[number]

/** A Secret as stored: values in base64. */
export type Secret = import('../apiserver/api.ts').KubeObject & { data?: Record<string, string> }

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
  /** Known once the Pod has its network. */
  podIP: string
  hostIP: string
  link?: PodLink | undefined
}

/** A container in its Pod. */
export interface ContainerContext extends PodSandbox {
  container: Container
}
