import type {
  V1Container,
  V1CronJob,
  V1DaemonSet,
  V1Deployment,
  V1EndpointSlice,
  V1Endpoints,
  V1Job,
  V1JobSpec,
  V1Pod,
  V1PodSpec,
  V1Probe,
  V1ReplicaSet,
  V1Service,
} from '@kubernetes/client-node'

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

/** Fills in what a Pod specification leaves open, as the API does for Pods and for Pod templates (core/v1 defaults). */
export function defaultPodSpec(spec: V1PodSpec): void {
  spec.dnsPolicy ??= 'ClusterFirst'
  spec.restartPolicy ??= 'Always'
  spec.terminationGracePeriodSeconds ??= 30
  spec.schedulerName ??= 'default-scheduler'
  spec.securityContext ??= {}
  if (spec.serviceAccountName) spec.serviceAccount = spec.serviceAccountName
  else if (spec.serviceAccount) spec.serviceAccountName = spec.serviceAccount
  for (const container of [
    ...(spec.initContainers ?? []),
    ...(spec.containers ?? []),
    ...(spec.ephemeralContainers ?? []),
  ]) {
    defaultContainer(container, spec.hostNetwork === true)
  }
  for (const volume of spec.volumes ?? []) {
    if (volume.configMap) volume.configMap.defaultMode ??= 0o644
    if (volume.secret) volume.secret.defaultMode ??= 0o644
    if (volume.projected) volume.projected.defaultMode ??= 0o644
    if (volume.downwardAPI) volume.downwardAPI.defaultMode ??= 0o644
    if (volume.hostPath) volume.hostPath.type ??= ''
  }
}

/** Defaults and admission of a new Pod: its account, tolerations, priority and first status. */
export function defaultPod(pod: V1Pod): void {
  const spec = pod.spec
  if (!spec) return
  defaultPodSpec(spec)
  spec.enableServiceLinks ??= true
  spec.serviceAccountName ||= 'default'
  spec.serviceAccount = spec.serviceAccountName
  spec.priority ??= 0
  spec.preemptionPolicy ??= 'PreemptLowerPriority'
  for (const condition of ['not-ready', 'unreachable']) {
    const key = `node.kubernetes.io/${condition}`
    const tolerated = (spec.tolerations ?? []).some(
      (toleration) =>
        (!toleration.key || toleration.key === key) && (!toleration.effect || toleration.effect === 'NoExecute'),
    )
    if (tolerated) continue
    spec.tolerations ??= []
    spec.tolerations.push({ key, operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 })
  }
  pod.status = { phase: 'Pending', qosClass: qosClass(spec) }
}

function defaultContainer(container: V1Container, hostNetwork: boolean): void {
  container.imagePullPolicy ??= hasLatestTag(container.image ?? '') ? 'Always' : 'IfNotPresent'
  container.resources ??= {}
  container.terminationMessagePath ??= '/dev/termination-log'
  container.terminationMessagePolicy ??= 'File'
  for (const port of container.ports ?? []) {
    port.protocol ??= 'TCP'
    if (hostNetwork) port.hostPort ??= port.containerPort
  }
  for (const probe of [container.livenessProbe, container.readinessProbe, container.startupProbe]) {
    if (probe) defaultProbe(probe)
  }
  for (const variable of container.env ?? []) {
    if (variable.valueFrom?.fieldRef) variable.valueFrom.fieldRef.apiVersion ??= 'v1'
  }
}

function defaultProbe(probe: V1Probe): void {
  probe.timeoutSeconds ??= 1
  probe.periodSeconds ??= 10
  probe.successThreshold ??= 1
  probe.failureThreshold ??= 3
  if (probe.httpGet) {
    probe.httpGet.path ??= '/'
    probe.httpGet.scheme ??= 'HTTP'
  }
  if (probe.grpc) probe.grpc.service ??= ''
}

function hasLatestTag(image: string): boolean {
  if (image.includes('@')) return false
  const tag = /:([^:/]+)$/.exec(image)?.[1]
  return tag === undefined || tag === 'latest'
}

function qosClass(spec: V1PodSpec): string {
  const containers = [...(spec.containers ?? []), ...(spec.initContainers ?? [])]
  const resources = containers.map((container) => container.resources ?? {})
  const named = (list: Record<string, string> | undefined) => Object.keys(list ?? {})
  if (resources.every((own) => named(own.requests).length === 0 && named(own.limits).length === 0)) return 'BestEffort'
  const guaranteed = resources.every((own) =>
    ['cpu', 'memory'].every((name) => {
      const limit = own.limits?.[name]
      return limit !== undefined && (own.requests?.[name] ?? limit) === limit
    }),
  )
  return guaranteed ? 'Guaranteed' : 'Burstable'
}

/** Fills in what a Service leaves open (core/v1 defaults and the Service registry); addresses and ports are allocated elsewhere. */
export function defaultService(service: V1Service): void {
  const spec = service.spec
  if (!spec) return
  spec.type ??= 'ClusterIP'
  spec.sessionAffinity ??= 'None'
  if (spec.sessionAffinity === 'ClientIP') {
    spec.sessionAffinityConfig ??= {}
    spec.sessionAffinityConfig.clientIP ??= {}
    spec.sessionAffinityConfig.clientIP.timeoutSeconds ??= 10_800
  } else {
    delete spec.sessionAffinityConfig
  }
  for (const port of spec.ports ?? []) {
    port.protocol ??= 'TCP'
    if (port.targetPort === undefined || port.targetPort === '' || port.targetPort === 0) port.targetPort = port.port
  }
  if (spec.type === 'ExternalName') return
  spec.internalTrafficPolicy ??= 'Cluster'
  if (spec.type === 'NodePort' || spec.type === 'LoadBalancer') spec.externalTrafficPolicy ??= 'Cluster'
  if (spec.type === 'LoadBalancer') spec.allocateLoadBalancerNodePorts ??= true
  for (const ingress of service.status?.loadBalancer?.ingress ?? []) if (ingress.ip) ingress.ipMode ??= 'VIP'
}

/** core/v1 defaults of Endpoints. */
export function defaultEndpoints(endpoints: V1Endpoints): void {
  for (const subset of endpoints.subsets ?? []) for (const port of subset.ports ?? []) port.protocol ??= 'TCP'
}
