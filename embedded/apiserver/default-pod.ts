import type { V1Container, V1Pod, V1PodSpec, V1Probe } from '@kubernetes/client-node'

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
