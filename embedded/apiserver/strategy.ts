import type { V1ConfigMap, V1Endpoints, V1Namespace, V1Node, V1Pod, V1Secret } from '@kubernetes/client-node'
import type { FieldErrors } from './field-errors.ts'
import { fill } from './json.ts'
import { defaultPod, defaultPodSpec, validatePodSpec, validatePodUpdate } from './pod-strategy.ts'
import { defaultEndpointSlice, prepareService, validateEndpointSlice, validateService } from './service-strategy.ts'
import type { Stored } from './store.ts'
import {
  defaultCronJob,
  defaultDaemonSet,
  defaultDeployment,
  defaultJob,
  defaultReplicaSet,
  validateCronJob,
  validateJob,
  validateWorkload,
} from './workload-strategy.ts'

/** Defaults and validation of one kind before it is stored. Both steps may change `object`, never `old`. */
interface Strategy<T> {
  /** Fills in defaults; `old` is present at an update. */
  prepare?(object: T, old?: T): void
  validate?(object: T, errors: FieldErrors, old?: T): void
}

// The wire form of a kind and client-node's class differ only in how dates are held, which no strategy reads.
function strategy<T>(own: Strategy<T>): Strategy<Stored> {
  return own as Strategy<Stored>
}

function validateData({ data }: V1ConfigMap | V1Secret, errors: FieldErrors): void {
  for (const key of Object.keys(data ?? {})) errors.checkSyntax(`data[${key}]`, key, 'dataKey')
}

const strategies: Record<string, Strategy<Stored>> = {
  pods: strategy<V1Pod>({
    prepare(pod, old) {
      if (old) defaultPodSpec(pod.spec)
      else defaultPod(pod)
    },
    validate(pod, errors, old) {
      validatePodSpec(pod.spec, 'spec', errors)
      if (old) validatePodUpdate(pod, old, errors)
    },
  }),
  services: strategy({ prepare: prepareService, validate: validateService }),
  endpoints: strategy<V1Endpoints>({
    prepare({ subsets = [] }) {
      for (const { ports = [] } of subsets) for (const port of ports) port.protocol ??= 'TCP'
    },
  }),
  endpointslices: strategy({ prepare: defaultEndpointSlice, validate: validateEndpointSlice }),
  configmaps: strategy({ validate: validateData }),
  secrets: strategy<V1Secret>({
    prepare(secret) {
      for (const [key, text] of Object.entries(secret.stringData ?? {})) {
        secret.data = { ...secret.data, [key]: Buffer.from(text).toString('base64') }
      }
      delete secret.stringData
      secret.type ??= 'Opaque'
    },
    validate: validateData,
  }),
  namespaces: strategy<V1Namespace>({
    prepare(namespace, old) {
      fill(namespace, { spec: {}, metadata: { labels: {} } })
      if (!old) fill(namespace, { spec: { finalizers: ['kubernetes'] }, status: { phase: 'Active' } })
      const { labels, name = '' } = namespace.metadata ?? {}
      if (labels) labels['kubernetes.io/metadata.name'] = name
    },
  }),
  nodes: strategy<V1Node>({ prepare: (node) => fill(node, { spec: {}, status: {} }) }),
  deployments: strategy({ prepare: defaultDeployment, validate: validateWorkload }),
  replicasets: strategy({ prepare: defaultReplicaSet, validate: validateWorkload }),
  daemonsets: strategy({ prepare: defaultDaemonSet, validate: validateWorkload }),
  jobs: strategy({ prepare: defaultJob, validate: validateJob }),
  cronjobs: strategy({ prepare: defaultCronJob, validate: validateCronJob }),
}

/** The defaults and rules of a resource. */
export function strategyOf(resource: string): Strategy<Stored> {
  return strategies[resource] ?? {}
}
