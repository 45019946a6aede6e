import type { V1ConfigMap, V1Namespace, V1Secret } from '@kubernetes/client-node'
import { type FieldErrors, syntaxFaults } from './field-errors.ts'
import { fill, jsonAt, sameJson } from './json.ts'
import { podStrategy } from './pod-strategy.ts'
import type { Resource } from './resource.ts'
import { endpointSliceStrategy, serviceStrategy } from './service-strategy.ts'
import type { Stored } from './store.ts'
import {
  applyDefaults,
  applyRules,
  check,
  type FieldRules,
  metadataRules,
  type Strategy,
} from './strategy.ts'
import {
  cronJobStrategy,
  daemonSetStrategy,
  deploymentStrategy,
  jobStrategy,
  replicaSetStrategy,
} from './workload-strategy.ts'

const dataKeys = check.each<object>((data, field, errors) => {
  for (const key of Object.keys(data))
    errors.invalid(`${field}[${key}]`, key, ...syntaxFaults(key, 'dataKey'))
})

/** Of all values of a ConfigMap or Secret, without their keys (MaxSecretSize in pkg/apis/core). */
const MOST_DATA_BYTES = 1024 * 1024

const bytesOf = (data: Record<string, string> = {}, encoding?: 'base64'): number =>
  Object.values(data).reduce((sum, text) => sum + Buffer.byteLength(text, encoding), 0)

const configMapRules: FieldRules = {
  data: dataKeys,
  '': check.each<V1ConfigMap>(({ data, binaryData }, _field, errors) => {
    // Kubernetes names no field here.
    if (bytesOf(data) + bytesOf(binaryData, 'base64') > MOST_DATA_BYTES)
      errors.tooLong('[]', MOST_DATA_BYTES)
  }),
}

const secretRules: FieldRules = {
  data: [
    dataKeys,
    check.each<Record<string, string>>((data, field, errors) => {
      if (bytesOf(data, 'base64') > MOST_DATA_BYTES) errors.tooLong(field, MOST_DATA_BYTES)
    }),
  ],
}

const namespaceStrategy: Strategy<V1Namespace> = {
  defaults: { '': { spec: {}, metadata: { labels: {} } } },
  prepare(namespace, old) {
    if (!old) fill(namespace, { spec: { finalizers: ['kubernetes'] }, status: { phase: 'Active' } })
    const { labels, name = '' } = namespace.metadata ?? {}
    if (labels) labels['kubernetes.io/metadata.name'] = name
  },
}

const secretStrategy: Strategy<V1Secret> = {
  defaults: { '': { type: 'Opaque' } },
  prepare(secret) {
    for (const [key, text] of Object.entries(secret.stringData ?? {}))
      secret.data = { ...secret.data, [key]: Buffer.from(text).toString('base64') }
    delete secret.stringData
  },
  rules: secretRules,
}

const strategies = {
  pods: podStrategy,
  services: serviceStrategy,
  endpoints: { defaults: { 'subsets[].ports[]': { protocol: 'TCP' } } },
  endpointslices: endpointSliceStrategy,
  configmaps: { rules: configMapRules },
  secrets: secretStrategy,
  namespaces: namespaceStrategy,
  nodes: { defaults: { '': { spec: {}, status: {} } } },
  deployments: deploymentStrategy,
  replicasets: replicaSetStrategy,
  daemonsets: daemonSetStrategy,
  jobs: jobStrategy,
  cronjobs: cronJobStrategy,
}

/**
 * The strategy of a resource. Stored objects and client-node's classes differ only in dates, which
 * no strategy reads.
 */
export function strategyOf(resource: string): Strategy<Stored> {
  return (strategies as Record<string, object>)[resource] ?? {}
}

/** Fills in what a new or changed object leaves open. */
export function prepare({ name }: Resource, object: Stored, old?: Stored): void {
  const { defaults = {}, prepare } = strategyOf(name)
  applyDefaults(object, defaults)
  prepare?.(object, old)
}

/** Finds the faults of an object's metadata, which a write of its status can change, too. */
export function validateMetadata(
  { nameRule }: Resource,
  object: Stored,
  errors: FieldErrors,
): void {
  applyRules(object, metadataRules(nameRule), errors)
}

/** Finds the faults of a new or changed object. */
export function validate(
  resource: Resource,
  object: Stored,
  errors: FieldErrors,
  old?: Stored,
): void {
  const { rules = {}, fixed = [], validateUpdate } = strategyOf(resource.name)
  validateMetadata(resource, object, errors)
  applyRules(object, rules, errors)
  if (!old) return
  for (const field of fixed) {
    const value = jsonAt(object, field)
    if (!sameJson(value, jsonAt(old, field))) errors.invalid(field, value, 'field is immutable')
  }
  validateUpdate?.(object, old, errors)
}
