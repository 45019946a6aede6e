import type { V1Container, V1Pod, V1PodSpec, V1PodTemplateSpec, V1Probe } from '@kubernetes/client-node'
import { type FieldErrors, portNameFaults } from './field-errors.ts'
import { fill, sameJson, wireCopy } from './json.ts'

const containerLists = ['initContainers', 'containers', 'ephemeralContainers'] as const
const probes = ['livenessProbe', 'readinessProbe', 'startupProbe'] as const

/** Fills in what a Pod specification leaves open, as the API does for Pods and for Pod templates (core/v1 defaults). */
export function defaultPodSpec(spec: V1PodSpec | undefined): void {
  if (!spec) return
  fill(spec, {
    dnsPolicy: 'ClusterFirst',
    restartPolicy: 'Always',
    terminationGracePeriodSeconds: 30,
    schedulerName: 'default-scheduler',
    securityContext: {},
  })
  if (spec.serviceAccountName) spec.serviceAccount = spec.serviceAccountName
  else if (spec.serviceAccount) spec.serviceAccountName = spec.serviceAccount
  for (const list of containerLists)
    for (const container of spec[list] ?? []) defaultContainer(container, spec.hostNetwork === true)
  for (const { configMap, secret, projected, downwardAPI } of spec.volumes ?? [])
    for (const source of [configMap, secret, projected, downwardAPI]) if (source) source.defaultMode ??= 0o644
}

function defaultContainer(container: V1Container, hostNetwork: boolean): void {
  const { image = '', ports = [], env = [] } = container
  const tag = image.includes('@') ? '' : (/:([^:/]+)$/.exec(image)?.[1] ?? 'latest')
  fill(container, {
    imagePullPolicy: tag === 'latest' ? 'Always' : 'IfNotPresent',
    resources: {},
    terminationMessagePath: '/dev/termination-log',
    terminationMessagePolicy: 'File',
  })
  for (const port of ports) fill(port, { protocol: 'TCP', ...(hostNetwork && { hostPort: port.containerPort }) })
  for (const { valueFrom } of env) if (valueFrom?.fieldRef) valueFrom.fieldRef.apiVersion ??= 'v1'
  for (const name of probes) {
    const probe = container[name]
    if (!probe) continue
    fill(probe, { timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3 })
    if (probe.httpGet) fill(probe.httpGet, { path: '/', scheme: 'HTTP' })
    if (probe.grpc) fill(probe.grpc, { service: '' })
  }
}

/** Defaults and admission of a new Pod: its account, tolerations, priority and first status. */
export function defaultPod(pod: V1Pod): void {
  const { spec } = pod
  if (!spec) return
  defaultPodSpec(spec)
  spec.serviceAccountName ||= 'default'
  spec.serviceAccount = spec.serviceAccountName
  fill(spec, { enableServiceLinks: true, priority: 0, preemptionPolicy: 'PreemptLowerPriority', tolerations: [] })
  for (const condition of ['not-ready', 'unreachable']) {
    const key = `node.kubernetes.io/${condition}`
    const isTolerated = spec.tolerations?.some(
      (toleration) =>
        (!toleration.key || toleration.key === key) && (!toleration.effect || toleration.effect === 'NoExecute'),
    )
    if (!isTolerated) spec.tolerations?.push({ key, operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 })
  }
  pod.status = { phase: 'Pending' }
}

/** Faults of a workload's Pod template. */
export function validatePodTemplate(template: V1PodTemplateSpec | undefined, path: string, errors: FieldErrors): void {
  errors.checkLabels(`${path}.metadata.labels`, template?.metadata?.labels)
  validatePodSpec(template?.spec, `${path}.spec`, errors)
}

/** Faults of the specification of a Pod or a Pod template. */
export function validatePodSpec(spec: V1PodSpec | undefined, path: string, errors: FieldErrors): void {
  if (!spec?.containers?.length) errors.required(`${path}.containers`)
  if (!spec) return
  const volumes = new Set<string>()
  for (const [index, { name }] of (spec.volumes ?? []).entries()) {
    const field = `${path}.volumes[${index}].name`
    if (!name) errors.required(field)
    else errors.checkSyntax(field, name, 'label')
    errors.checkUnique(field, name, volumes)
  }
  const names = new Set<string>()
  for (const list of containerLists) {
    for (const [index, container] of (spec[list] ?? []).entries()) {
      const field = `${path}.${list}[${index}]`
      if (container.name) errors.checkUnique(`${field}.name`, container.name, names)
      validateContainer(container, field, volumes, errors)
    }
  }
  const dnsPolicies = ['ClusterFirst', 'ClusterFirstWithHostNet', 'Default', 'None']
  errors.checkChoice(`${path}.restartPolicy`, spec.restartPolicy, ['Always', 'OnFailure', 'Never'])
  errors.checkChoice(`${path}.dnsPolicy`, spec.dnsPolicy, dnsPolicies)
  errors.checkNotNegative(path, spec, ['terminationGracePeriodSeconds'])
  errors.checkLabels(`${path}.nodeSelector`, spec.nodeSelector)
  for (const [index, { operator, effect, value }] of (spec.tolerations ?? []).entries()) {
    const field = `${path}.tolerations[${index}]`
    errors.checkChoice(`${field}.operator`, operator || undefined, ['Equal', 'Exists'])
    errors.checkChoice(`${field}.effect`, effect || undefined, ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])
    if (operator === 'Exists' && value)
      errors.invalid(`${field}.operator`, operator, "value must be empty when `operator` is 'Exists'")
  }
  validateAffinity(spec, `${path}.affinity`, errors)
}

/** The fields without which the scheduler can't read a rule. */
function validateAffinity({ affinity }: V1PodSpec, path: string, errors: FieldErrors): void {
  const nodes = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution
  if (nodes && !nodes.nodeSelectorTerms?.length)
    errors.required(`${path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms`)
  const preferred = affinity?.podAntiAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? []
  for (const [index, { podAffinityTerm }] of preferred.entries())
    if (!podAffinityTerm?.topologyKey)
      errors.required(
        `${path}.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[${index}].podAffinityTerm.topologyKey`,
      )
}

function validateContainer(container: V1Container, path: string, volumes: Set<string>, errors: FieldErrors): void {
  const { name, image, imagePullPolicy, ports = [], env = [], volumeMounts = [] } = container
  if (!name) errors.required(`${path}.name`)
  else errors.checkSyntax(`${path}.name`, name, 'label')
  if (!image) errors.required(`${path}.image`)
  else if (image !== image.trim()) {
    errors.invalid(`${path}.image`, image, 'must not have leading or trailing whitespace')
  }
  errors.checkChoice(`${path}.imagePullPolicy`, imagePullPolicy, ['Always', 'IfNotPresent', 'Never'])
  const portNames = new Set<string>()
  for (const [index, port] of ports.entries()) {
    const field = `${path}.ports[${index}]`
    if (port.name) {
      for (const fault of portNameFaults(port.name)) errors.invalid(`${field}.name`, port.name, fault)
      errors.checkUnique(`${field}.name`, port.name, portNames)
    }
    if (!port.containerPort) errors.required(`${field}.containerPort`)
    else errors.checkPort(`${field}.containerPort`, port.containerPort)
    if (port.hostPort) errors.checkPort(`${field}.hostPort`, port.hostPort)
    errors.checkChoice(`${field}.protocol`, port.protocol, ['TCP', 'UDP', 'SCTP'])
  }
  for (const [index, variable] of env.entries()) if (!variable.name) errors.required(`${path}.env[${index}].name`)
  for (const [index, mount] of volumeMounts.entries()) {
    const field = `${path}.volumeMounts[${index}]`
    if (!mount.mountPath) errors.required(`${field}.mountPath`)
    if (!volumes.has(mount.name))
      errors.add('FieldValueNotFound', `${field}.name`, `Not found: ${JSON.stringify(mount.name)}`)
  }
  for (const probe of probes) validateProbe(container[probe], `${path}.${probe}`, errors)
}

function validateProbe(probe: V1Probe | undefined, path: string, errors: FieldErrors): void {
  if (!probe) return
  const handlers = (['exec', 'httpGet', 'tcpSocket', 'grpc'] as const).filter((handler) => probe[handler])
  if (handlers.length === 0) errors.required(path, 'must specify a handler type')
  for (const handler of handlers.slice(1))
    errors.forbidden(`${path}.${handler}`, 'may not specify more than 1 handler type')
  for (const handler of ['httpGet', 'tcpSocket'] as const) {
    const port = probe[handler]?.port
    if (typeof port === 'number') errors.checkPort(`${path}.${handler}.port`, port)
  }
  const counts = ['initialDelaySeconds', 'timeoutSeconds', 'periodSeconds', 'failureThreshold']
  errors.checkNotNegative(path, probe, counts)
  const threshold = probe.successThreshold ?? 1
  if (threshold !== 1 && !path.endsWith('readinessProbe')) {
    errors.invalid(`${path}.successThreshold`, threshold, 'must be 1')
  }
}

/**
 * A Pod's specification is immutable except images, the deadline, tolerations and ephemeral containers; the scheduler may set
 * the node once.
 */
export function validatePodUpdate({ spec }: V1Pod, { spec: old }: V1Pod, errors: FieldErrors): void {
  if (!spec || !old) return
  const fixed = (own: V1PodSpec): object => {
    const { activeDeadlineSeconds: _, tolerations: _t, ephemeralContainers: _e, nodeName, ...rest } = own
    const withoutImage = ({ image: _image, ...container }: V1Container) => container
    const containers = (own.containers ?? []).map(withoutImage)
    const initContainers = (own.initContainers ?? []).map(withoutImage)
    return wireCopy({ ...rest, containers, initContainers, nodeName: old.nodeName && nodeName })
  }
  if (!sameJson(fixed(spec), fixed(old))) {
    errors.forbidden(
      'spec',
      'pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations`',
    )
  }
}
