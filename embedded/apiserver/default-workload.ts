import type { V1DaemonSet, V1Deployment, V1EndpointSlice, V1ReplicaSet } from '@kubernetes/client-node'
import { defaultPodSpec } from './default-pod.ts'

/** apps/v1 defaults of a Deployment. */
export function defaultDeployment(deployment: V1Deployment): void {
  const spec = deployment.spec
  if (!spec) return
  spec.replicas ??= 1
  spec.revisionHistoryLimit ??= 10
  spec.progressDeadlineSeconds ??= 600
  spec.strategy ??= {}
  spec.strategy.type ??= 'RollingUpdate'
  if (spec.strategy.type === 'RollingUpdate') {
    spec.strategy.rollingUpdate ??= {}
    spec.strategy.rollingUpdate.maxUnavailable ??= '25%'
    spec.strategy.rollingUpdate.maxSurge ??= '25%'
  }
  if (spec.template?.spec) defaultPodSpec(spec.template.spec)
}

/** apps/v1 defaults of a ReplicaSet. */
export function defaultReplicaSet(replicaSet: V1ReplicaSet): void {
  const spec = replicaSet.spec
  if (!spec) return
  spec.replicas ??= 1
  if (spec.template?.spec) defaultPodSpec(spec.template.spec)
}

/** apps/v1 defaults of a DaemonSet. */
export function defaultDaemonSet(daemonSet: V1DaemonSet): void {
  const spec = daemonSet.spec
  if (!spec) return
  spec.revisionHistoryLimit ??= 10
  spec.updateStrategy ??= {}
  spec.updateStrategy.type ??= 'RollingUpdate'
  if (spec.updateStrategy.type === 'RollingUpdate') {
    spec.updateStrategy.rollingUpdate ??= {}
    spec.updateStrategy.rollingUpdate.maxUnavailable ??= 1
    spec.updateStrategy.rollingUpdate.maxSurge ??= 0
  }
  if (spec.template?.spec) defaultPodSpec(spec.template.spec)
}

/** discovery.k8s.io/v1 defaults of an EndpointSlice. */
export function defaultEndpointSlice(slice: V1EndpointSlice): void {
  slice.endpoints ??= []
  for (const port of slice.ports ?? []) {
    port.name ??= ''
    port.protocol ??= 'TCP'
  }
}
