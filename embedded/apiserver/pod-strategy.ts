import type {
  V1Container,
  V1ContainerPort,
  V1Pod,
  V1PodSpec,
  V1Probe,
  V1Toleration,
} from '@kubernetes/client-node'
import { parseImageReference } from '../../host/image-reference.ts'
import { fill, sameJson, wireCopy } from './json.ts'
import {
  check,
  type Defaults,
  type FieldRules,
  fieldsAt,
  type Strategy,
  under,
} from './strategy.ts'

/** An image that is named by its digest, or by a tag other than latest, is not pulled again. */
function pullPolicyOf(image: string): string {
  const { tag = 'latest', digest } = parseImageReference(image)
  return digest !== undefined || tag !== 'latest' ? 'IfNotPresent' : 'Always'
}

const containers = 'containers|initContainers|ephemeralContainers[]'
const probes = 'livenessProbe|readinessProbe|startupProbe'

/** Removes numbers that are 0: in Go these fields can't be absent, so 0 leaves them open. */
function openZeros<T extends object>(object: T, ...fields: (keyof T)[]): void {
  for (const field of fields) if (object[field] === 0) delete object[field]
}

/** core/v1 defaults of the specification of a Pod or a Pod template. */
export const podSpecDefaults: Defaults = {
  '': ({ serviceAccount }: V1PodSpec) => ({
    dnsPolicy: 'ClusterFirst',
    restartPolicy: 'Always',
    terminationGracePeriodSeconds: 30,
    schedulerName: 'default-scheduler',
    serviceAccountName: serviceAccount,
    securityContext: {},
  }),
  [containers]: ({ image = '' }: V1Container) => ({
    imagePullPolicy: pullPolicyOf(image),
    resources: {},
    terminationMessagePath: '/dev/termination-log',
    terminationMessagePolicy: 'File',
  }),
  [`${containers}.ports[]`]: (port: V1ContainerPort) => {
    openZeros(port, 'hostPort')
    return { protocol: 'TCP' }
  },
  [`${containers}.env[].valueFrom.fieldRef`]: { apiVersion: 'v1' },
  [`${containers}.${probes}`]: (probe: V1Probe) => {
    openZeros(probe, 'timeoutSeconds', 'periodSeconds', 'successThreshold', 'failureThreshold')
    return { timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3 }
  },
  [`${containers}.${probes}.httpGet`]: { path: '/', scheme: 'HTTP' },
  [`${containers}.${probes}.grpc`]: { service: '' },
  'volumes[].configMap|secret|projected|downwardAPI': { defaultMode: 0o644 },
  'affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[]': {
    podAffinityTerm: {},
  },
}

/** The list that contains a field. */
const listOf = (field: string) => field.slice(0, field.lastIndexOf('['))

const containerRules: FieldRules = {
  name: [check.required, check.syntax('label'), check.unique()],
  image: [
    check.required,
    check.not<string>(
      (image) => image !== image.trim(),
      'must not have leading or trailing whitespace',
    ),
  ],
  imagePullPolicy: check.oneOf('Always', 'IfNotPresent', 'Never'),
  'ports[].name': [check.port, check.unique((name) => name, listOf)],
  'ports[].containerPort': [check.required, check.port],
  'ports[].hostPort': check.port,
  'ports[].protocol': check.oneOf('TCP', 'UDP', 'SCTP'),
  'env[].name': check.required,
  'volumeMounts[].mountPath': check.required,
  [probes]: check.each<V1Probe>((probe, field, errors) => {
    const handlers = (['exec', 'httpGet', 'tcpSocket', 'grpc'] as const).filter(
      (handler) => probe[handler],
    )
    if (handlers.length === 0) errors.required(field, 'must specify a handler type')
    for (const handler of handlers.slice(1))
      errors.forbidden(`${field}.${handler}`, 'may not specify more than 1 handler type')
  }),
  [`${probes}.httpGet|tcpSocket.port`]: check.port,
  [`${probes}.initialDelaySeconds|timeoutSeconds|periodSeconds|failureThreshold`]:
    check.notNegative,
  'livenessProbe|startupProbe.successThreshold': check.not(
    (threshold) => threshold !== 1,
    'must be 1',
  ),
}

const podSpecRules: FieldRules = {
  containers: check.required,
  ...under(containers, containerRules),
  'volumes[].name': [check.required, check.syntax('label'), check.unique()],
  '': check.each<V1PodSpec>((spec, path, errors) => {
    for (const { field, value } of fieldsAt(spec, `${containers}.volumeMounts[].name`, path))
      if (!spec.volumes?.some(({ name }) => name === value))
        errors.add('FieldValueNotFound', field, `Not found: ${JSON.stringify(value)}`)
  }),
  restartPolicy: check.oneOf('Always', 'OnFailure', 'Never'),
  dnsPolicy: check.oneOf('ClusterFirst', 'ClusterFirstWithHostNet', 'Default', 'None'),
  terminationGracePeriodSeconds: check.notNegative,
  nodeSelector: check.labels,
  'tolerations[].operator': check.oneOf('Equal', 'Exists'),
  'tolerations[].effect': check.oneOf('NoSchedule', 'PreferNoSchedule', 'NoExecute'),
  'tolerations[]': check.each<V1Toleration>(({ operator, value }, field, errors) => {
    const fault = "value must be empty when `operator` is 'Exists'"
    if (operator === 'Exists' && value) errors.invalid(`${field}.operator`, operator, fault)
  }),
  // Without these fields the scheduler can't read a rule.
  'affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms':
    check.required,
  'affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm.topologyKey':
    check.required,
}

/** The rules for a workload's Pod template. */
export const podTemplateRules: FieldRules = {
  'metadata.labels': check.labels,
  'metadata.annotations': check.annotations,
  ...under('spec', podSpecRules),
}

export const podStrategy: Strategy<V1Pod> = {
  defaults: { '': { spec: {} }, ...under('spec', podSpecDefaults) },
  prepare(pod, old) {
    if (!old && pod.spec) admit(pod.spec)
    if (!old) pod.status = { phase: 'Pending' }
  },
  rules: under('spec', podSpecRules),
  validateUpdate({ spec }, { spec: old }, errors) {
    const detail =
      'pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations`'
    const hadNode = Boolean(old?.nodeName)
    if (spec && old && !sameJson(fixedPart(spec, hadNode), fixedPart(old, hadNode)))
      errors.forbidden('spec', detail)
  },
}

/**
 * What admission plugins add to a new Pod: its account, its priority and the tolerations of a node
 * that is lost.
 */
function admit(spec: V1PodSpec): void {
  const account = spec.serviceAccountName || 'default'
  const priority = { priority: 0, preemptionPolicy: 'PreemptLowerPriority' }
  fill(spec, {
    serviceAccountName: account,
    serviceAccount: account,
    enableServiceLinks: true,
    ...priority,
  })
  spec.tolerations ??= []
  for (const condition of ['not-ready', 'unreachable']) {
    const key = `node.kubernetes.io/${condition}`
    const isTolerated = spec.tolerations.some(
      (toleration) =>
        (!toleration.key || toleration.key === key) &&
        (!toleration.effect || toleration.effect === 'NoExecute'),
    )
    if (!isTolerated)
      spec.tolerations.push({
        key,
        operator: 'Exists',
        effect: 'NoExecute',
        tolerationSeconds: 300,
      })
  }
}

/** The part of a specification that an update can't change: the scheduler sets the node once. */
function fixedPart(spec: V1PodSpec, hadNode: boolean): object {
  const {
    activeDeadlineSeconds: _,
    tolerations: _t,
    ephemeralContainers: _e,
    nodeName,
    ...rest
  } = spec
  const withoutImages = (list: V1Container[] = []) =>
    list.map(({ image: _image, ...container }) => container)
  const images = {
    containers: withoutImages(spec.containers),
    initContainers: withoutImages(spec.initContainers),
  }
  return wireCopy({ ...rest, ...images, ...(hadNode && { nodeName }) })
}
