import type {
  V1ConfigMap,
  V1CronJob,
  V1DaemonSet,
  V1Deployment,
  V1EndpointSlice,
  V1Endpoints,
  V1Job,
  V1Namespace,
  V1Node,
  V1Pod,
  V1ReplicaSet,
  V1Secret,
  V1Service,
} from '@kubernetes/client-node'
import {
  defaultCronJob,
  defaultDaemonSet,
  defaultDeployment,
  defaultEndpointSlice,
  defaultEndpoints,
  defaultJob,
  defaultPod,
  defaultPodSpec,
  defaultReplicaSet,
  defaultService,
} from './defaults.ts'
import type { FieldErrors } from './field-errors.ts'
import { sameJson } from './json.ts'
import { carryAllocations, prepareService } from './service-allocator.ts'
import type { Stored } from './store.ts'
import { validatePodSpec, validatePodUpdate } from './validate-pod.ts'
import {
  validateData,
  validateDataUpdate,
  validateEndpointSlice,
  validateEndpointSliceUpdate,
  validateService,
  validateServiceUpdate,
} from './validate-service.ts'
import { validateCronJob, validateJobSpec, validateWorkload, validateWorkloadUpdate } from './validate-workload.ts'

/** Defaults and validation of one kind before it is stored. Both steps may change `object`, never `old`. */
interface Strategy<T> {
  /** Fills in defaults; `old` is present at an update. */
  prepare?(object: T, old?: T): void
  validate?(object: T, errors: FieldErrors, old?: T): void
}

// The wire form of a kind and client-node's class differ only in how dates are held, which no strategy reads.
function strategy<T>(own: Strategy<T>): Strategy<Stored> {
  return own as unknown as Strategy<Stored>
}

const data = strategy<V1ConfigMap | V1Secret>({
  validate(object, errors, old) {
    validateData(object, errors)
    if (old) validateDataUpdate(object, old, errors)
  },
})

const byResource: Record<string, Strategy<Stored>> = {
  pods: strategy<V1Pod>({
    prepare(pod, old) {
      if (!old) defaultPod(pod)
      else if (pod.spec) defaultPodSpec(pod.spec)
    },
    validate(pod, errors, old) {
      validatePodSpec(pod.spec ?? { containers: [] }, 'spec', errors)
      if (old) validatePodUpdate(pod, old, errors)
    },
  }),
  services: strategy<V1Service>({
    prepare(service, old) {
      service.status ??= { loadBalancer: {} }
      if (service.spec && old?.spec?.type === 'ClusterIP' && service.spec.type === undefined)
        service.spec.type = 'ClusterIP'
      defaultService(service)
      if (old) carryAllocations(service, old)
      prepareService(service)
    },
    validate(service, errors, old) {
      validateService(service, errors)
      if (old) validateServiceUpdate(service, old, errors)
    },
  }),
  endpoints: strategy<V1Endpoints>({ prepare: defaultEndpoints }),
  configmaps: data,
  secrets: strategy<V1Secret>({
    prepare(secret) {
      for (const [key, text] of Object.entries(secret.stringData ?? {})) {
        secret.data = { ...secret.data, [key]: Buffer.from(text).toString('base64') }
      }
      delete secret.stringData
      secret.type ??= 'Opaque'
    },
    validate(secret, errors, old) {
      data.validate?.(secret as unknown as Stored, errors, old as unknown as Stored | undefined)
      if (old && secret.type !== old.type) errors.invalid('type', secret.type, 'field is immutable')
    },
  }),
  namespaces: strategy<V1Namespace>({
    prepare(namespace, old) {
      namespace.spec ??= {}
      if (!old) {
        namespace.spec.finalizers ??= ['kubernetes']
        namespace.status = { phase: 'Active' }
      }
      if (namespace.metadata?.name) {
        namespace.metadata.labels = {
          ...namespace.metadata.labels,
          'kubernetes.io/metadata.name': namespace.metadata.name,
        }
      }
    },
  }),
  nodes: strategy<V1Node>({
    prepare(node) {
      node.spec ??= {}
      node.status ??= {}
    },
    validate(node, errors, old) {
      if (old?.spec?.podCIDR && !sameJson(node.spec?.podCIDR, old.spec.podCIDR)) {
        errors.forbidden('spec.podCIDR', 'node updates may not change podCIDR except from "" to valid')
      }
    },
  }),
  deployments: strategy<V1Deployment>({
    prepare(deployment) {
      defaultDeployment(deployment)
      deployment.status ??= {}
    },
    validate(deployment, errors, old) {
      validateWorkload(deployment, errors)
      if (old) validateWorkloadUpdate(deployment, old, errors)
    },
  }),
  replicasets: strategy<V1ReplicaSet>({
    prepare(replicaSet) {
      defaultReplicaSet(replicaSet)
      replicaSet.status ??= { replicas: 0 }
    },
    validate(replicaSet, errors, old) {
      validateWorkload(replicaSet, errors)
      if (old) validateWorkloadUpdate(replicaSet, old, errors)
    },
  }),
  daemonsets: strategy<V1DaemonSet>({
    prepare(daemonSet) {
      defaultDaemonSet(daemonSet)
      daemonSet.status ??= {
        currentNumberScheduled: 0,
        desiredNumberScheduled: 0,
        numberMisscheduled: 0,
        numberReady: 0,
      }
    },
    validate(daemonSet, errors, old) {
      validateWorkload(daemonSet, errors)
      if (old) validateWorkloadUpdate(daemonSet, old, errors)
    },
  }),
  jobs: strategy<V1Job>({
    prepare(job, old) {
      defaultJob(job, !old)
      job.status ??= {}
    },
    validate(job, errors, old) {
      validateJobSpec(job.spec, 'spec', errors)
      if (old && !sameJson(job.spec?.template, old.spec?.template)) {
        errors.invalid('spec.template', job.spec?.template, 'field is immutable')
      }
    },
  }),
  cronjobs: strategy<V1CronJob>({
    prepare(cronJob) {
      defaultCronJob(cronJob)
      cronJob.status ??= {}
    },
    validate: validateCronJob,
  }),
  endpointslices: strategy<V1EndpointSlice>({
    prepare: defaultEndpointSlice,
    validate(slice, errors, old) {
      validateEndpointSlice(slice, errors)
      if (old) validateEndpointSliceUpdate(slice, old, errors)
    },
  }),
}

const none: Strategy<Stored> = {}

/** The defaults and rules of a resource. */
export function strategyOf(resource: string): Strategy<Stored> {
  return byResource[resource] ?? none
}
