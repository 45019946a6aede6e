import type { Pod } from '../controllers/resources.ts'

export type { ConfigMap, Node, Pod } from '../controllers/resources.ts'
export type Container = Pod['spec']['containers'][number]
export type PodStatus = NonNullable<Pod['status']>
export type ContainerStatus = NonNullable<PodStatus['containerStatuses']>[number]
export type ContainerState = NonNullable<ContainerStatus['state']>
export type Probe = NonNullable<Container['readinessProbe']>
export type Volume = NonNullable<Pod['spec']['volumes']>[number]
export type LifecycleHandler = NonNullable<NonNullable<Container['lifecycle']>['preStop']>

/** A Secret as stored: values in base64. */
export type Secret = import('../apiserver/api.ts').KubeObject & { data?: Record<string, string> }

/** A file to be written; the path is the guest's, or one inside a container, as the user says. */
export interface GuestFile {
  path: string
  content: string | Uint8Array
  mode?: number
}
