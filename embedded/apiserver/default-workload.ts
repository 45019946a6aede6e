import type {
  V1CronJob,
  V1DaemonSet,
  V1Deployment,
  V1EndpointSlice,
  V1Job,
  V1JobSpec,
  V1ReplicaSet,
} from '@kubernetes/client-node'
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

function defaultJobSpec(spec: V1JobSpec): void {
  if (spec.parallelism === undefined) spec.completions ??= 1
  spec.parallelism ??= 1
  spec.backoffLimit ??= 6
  spec.completionMode ??= 'NonIndexed'
  spec.suspend ??= false
  spec.podReplacementPolicy ??= 'TerminatingOrFailed'
  if (spec.template?.spec) defaultPodSpec(spec.template.spec)
}

/** batch/v1 defaults of a Job; a new one gets the labels by which its Pods are found. */
export function defaultJob({ metadata, spec }: V1Job, created: boolean): void {
  if (!spec) return
  defaultJobSpec(spec)
  if (!created || !metadata?.uid || !spec.template) return
  const [uid, name] = [metadata.uid, metadata.name ?? '']
  const labels = { 'batch.kubernetes.io/controller-uid': uid, 'batch.kubernetes.io/job-name': name }
  const legacy = { 'controller-uid': uid, 'job-name': name }
  spec.selector = { matchLabels: { 'batch.kubernetes.io/controller-uid': uid } }
  spec.template.metadata = {
    ...spec.template.metadata,
    labels: { ...spec.template.metadata?.labels, ...labels, ...legacy },
  }
  metadata.labels ??= { ...spec.template.metadata.labels }
}

/** batch/v1 defaults of a CronJob. */
export function defaultCronJob({ spec }: V1CronJob): void {
  if (!spec) return
  spec.concurrencyPolicy ??= 'Allow'
  spec.suspend ??= false
  spec.successfulJobsHistoryLimit ??= 3
  spec.failedJobsHistoryLimit ??= 1
  if (spec.jobTemplate?.spec?.template?.spec) defaultPodSpec(spec.jobTemplate.spec.template.spec)
}

/** discovery.k8s.io/v1 defaults of an EndpointSlice. */
export function defaultEndpointSlice(slice: V1EndpointSlice): void {
  slice.endpoints ??= []
  for (const port of slice.ports ?? []) {
    port.name ??= ''
    port.protocol ??= 'TCP'
  }
}
