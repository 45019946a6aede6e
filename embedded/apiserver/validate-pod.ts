import type { V1Container, V1Pod, V1PodSpec, V1PodTemplateSpec, V1Probe } from '@kubernetes/client-node'
import {
  type FieldErrors,
  labelFaults,
  portNameFaults,
  portNumberFaults,
  subdomainFaults,
  validateLabels,
} from './field-errors.ts'
import { sameJson, wireCopy } from './json.ts'

const protocols = ['TCP', 'UDP', 'SCTP']

/** Faults of the specification of a Pod or a Pod template. */
export function validatePodSpec(spec: V1PodSpec, path: string, errors: FieldErrors): void {
  if (!spec.containers?.length) errors.required(`${path}.containers`)
  const volumes = new Set<string>()
  for (const [index, volume] of (spec.volumes ?? []).entries()) {
    const field = `${path}.volumes[${index}].name`
    if (!volume.name) errors.required(field)
    else for (const fault of labelFaults(volume.name)) errors.invalid(field, volume.name, fault)
    if (volumes.has(volume.name)) errors.duplicate(field, volume.name)
    volumes.add(volume.name)
  }
  const names = new Set<string>()
  for (const list of ['initContainers', 'containers', 'ephemeralContainers'] as const) {
    for (const [index, container] of (spec[list] ?? []).entries()) {
      const field = `${path}.${list}[${index}]`
      if (container.name && names.has(container.name)) errors.duplicate(`${field}.name`, container.name)
      names.add(container.name)
      validateContainer(container, field, volumes, errors)
      if (spec.hostNetwork) validateHostPorts(container, field, errors)
    }
  }
  oneOf(spec.restartPolicy, `${path}.restartPolicy`, ['Always', 'OnFailure', 'Never'], errors)
  oneOf(spec.dnsPolicy, `${path}.dnsPolicy`, ['ClusterFirst', 'ClusterFirstWithHostNet', 'Default', 'None'], errors)
  if ((spec.terminationGracePeriodSeconds ?? 0) < 0) {
    errors.invalid(
      `${path}.terminationGracePeriodSeconds`,
      spec.terminationGracePeriodSeconds,
      'must be greater than or equal to 0',
    )
  }
  if (spec.nodeName) {
    for (const fault of subdomainFaults(spec.nodeName)) errors.invalid(`${path}.nodeName`, spec.nodeName, fault)
  }
  validateLabels(spec.nodeSelector, `${path}.nodeSelector`, errors)
  for (const [index, toleration] of (spec.tolerations ?? []).entries()) {
    const field = `${path}.tolerations[${index}]`
    oneOf(toleration.operator || undefined, `${field}.operator`, ['Equal', 'Exists'], errors)
    oneOf(toleration.effect || undefined, `${field}.effect`, ['NoSchedule', 'PreferNoSchedule', 'NoExecute'], errors)
    if (toleration.operator === 'Exists' && toleration.value) {
      errors.invalid(`${field}.operator`, toleration.value, "value must be empty when `operator` is 'Exists'")
    }
  }
}

/** Faults of a workload's Pod template. */
export function validatePodTemplate(template: V1PodTemplateSpec | undefined, path: string, errors: FieldErrors): void {
  validateLabels(template?.metadata?.labels, `${path}.metadata.labels`, errors)
  validatePodSpec(template?.spec ?? { containers: [] }, `${path}.spec`, errors)
}

/**
 * A Pod's specification is immutable except images, deadlines and added tolerations; the scheduler may set
 * the node once.
 */
export function validatePodUpdate(pod: V1Pod, old: V1Pod, errors: FieldErrors): void {
  if (!pod.spec || !old.spec) return
  const allowed = wireCopy(pod.spec)
  for (const list of ['initContainers', 'containers'] as const) {
    for (const [index, container] of (allowed[list] ?? []).entries()) {
      const before = old.spec[list]?.[index]
      if (before?.name === container.name && before.image !== undefined) container.image = before.image
    }
  }
  restore(allowed, old.spec, 'activeDeadlineSeconds')
  const added = (old.spec.ephemeralContainers ?? []).every((one, index) =>
    sameJson(one, pod.spec?.ephemeralContainers?.[index]),
  )
  if (added) restore(allowed, old.spec, 'ephemeralContainers')
  if (!old.spec.nodeName) restore(allowed, old.spec, 'nodeName')
  const kept = (old.spec.tolerations ?? []).every((toleration) =>
    (pod.spec?.tolerations ?? []).some((other) => sameJson(toleration, other)),
  )
  if (kept) restore(allowed, old.spec, 'tolerations')
  if (!sameJson(allowed, wireCopy(old.spec))) {
    errors.forbidden(
      'spec',
      'pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
    )
  }
}

function restore<K extends keyof V1PodSpec>(spec: V1PodSpec, old: V1PodSpec, field: K): void {
  if (old[field] === undefined) delete spec[field]
  else spec[field] = old[field]
}

export function oneOf(
  value: string | undefined,
  path: string,
  supported: readonly string[],
  errors: FieldErrors,
): void {
  if (value !== undefined && !supported.includes(value)) errors.notSupported(path, value, supported)
}

function validateContainer(container: V1Container, path: string, volumes: Set<string>, errors: FieldErrors): void {
  if (!container.name) errors.required(`${path}.name`)
  else for (const fault of labelFaults(container.name)) errors.invalid(`${path}.name`, container.name, fault)
  if (!container.image) errors.required(`${path}.image`)
  else if (container.image !== container.image.trim()) {
    errors.invalid(`${path}.image`, container.image, 'must not have leading or trailing whitespace')
  }
  oneOf(container.imagePullPolicy, `${path}.imagePullPolicy`, ['Always', 'IfNotPresent', 'Never'], errors)
  validateSecurityContext(container, `${path}.securityContext`, errors)
  const portNames = new Set<string>()
  for (const [index, port] of (container.ports ?? []).entries()) {
    const field = `${path}.ports[${index}]`
    if (port.name) {
      for (const fault of portNameFaults(port.name)) errors.invalid(`${field}.name`, port.name, fault)
      if (portNames.has(port.name)) errors.duplicate(`${field}.name`, port.name)
      portNames.add(port.name)
    }
    if (!port.containerPort) errors.required(`${field}.containerPort`)
    else checkPort(port.containerPort, `${field}.containerPort`, errors)
    if (port.hostPort) checkPort(port.hostPort, `${field}.hostPort`, errors)
    oneOf(port.protocol, `${field}.protocol`, protocols, errors)
  }
  for (const [index, variable] of (container.env ?? []).entries()) {
    if (!variable.name) errors.required(`${path}.env[${index}].name`)
    if (variable.value && variable.valueFrom) {
      errors.invalid(`${path}.env[${index}].valueFrom`, '', 'may not be specified when `value` is not empty')
    }
  }
  for (const [index, mount] of (container.volumeMounts ?? []).entries()) {
    const field = `${path}.volumeMounts[${index}]`
    if (!mount.mountPath) errors.required(`${field}.mountPath`)
    if (!mount.name) errors.required(`${field}.name`)
    else if (!volumes.has(mount.name)) errors.notFound(`${field}.name`, mount.name)
  }
  for (const probe of ['livenessProbe', 'readinessProbe', 'startupProbe'] as const) {
    const own = container[probe]
    if (own) validateProbe(own, `${path}.${probe}`, probe, errors)
  }
}

function validateProbe(probe: V1Probe, path: string, kind: string, errors: FieldErrors): void {
  const handlers = (['exec', 'httpGet', 'tcpSocket', 'grpc'] as const).filter((handler) => probe[handler])
  if (handlers.length === 0) errors.required(path, 'must specify a handler type')
  for (const handler of handlers.slice(1))
    errors.forbidden(`${path}.${handler}`, 'may not specify more than 1 handler type')
  const port = probe.httpGet?.port ?? probe.tcpSocket?.port
  if (typeof port === 'number') checkPort(port, `${path}.${probe.httpGet ? 'httpGet' : 'tcpSocket'}.port`, errors)
  for (const field of ['initialDelaySeconds', 'timeoutSeconds', 'periodSeconds', 'failureThreshold'] as const) {
    const value = probe[field]
    if (value !== undefined && value < 0)
      errors.invalid(`${path}.${field}`, value, 'must be greater than or equal to 0')
  }
  if (kind !== 'readinessProbe' && probe.successThreshold !== undefined && probe.successThreshold !== 1) {
    errors.invalid(`${path}.successThreshold`, probe.successThreshold, 'must be 1')
  }
}

function validateSecurityContext({ securityContext }: V1Container, path: string, errors: FieldErrors): void {
  if (securityContext?.allowPrivilegeEscalation !== false) return
  const refuse = (what: string) =>
    errors.invalid(path, securityContext, `cannot set \`allowPrivilegeEscalation\` to false and ${what}`)
  if (securityContext.privileged) refuse('`privileged` to true')
  if (securityContext.capabilities?.add?.some((name) => name === 'CAP_SYS_ADMIN'))
    refuse('`capabilities.Add` CAP_SYS_ADMIN')
}

function validateHostPorts(container: V1Container, path: string, errors: FieldErrors): void {
  for (const [index, port] of (container.ports ?? []).entries()) {
    if (port.hostPort !== port.containerPort) {
      errors.invalid(
        `${path}.ports[${index}].hostPort`,
        port.hostPort,
        'must match `containerPort` when `hostNetwork` is true',
      )
    }
  }
}

function checkPort(port: number, path: string, errors: FieldErrors): void {
  for (const fault of portNumberFaults(port)) errors.invalid(path, port, fault)
}
