import type { V1CronJob, V1DaemonSet, V1Deployment, V1Job, V1JobSpec, V1ReplicaSet } from '@kubernetes/client-node'
import { Cron } from 'croner'
import { matchesSelector } from '../../dataplane/label-selector.ts'
import type { FieldErrors } from './field-errors.ts'
import { fill, sameJson } from './json.ts'
import { defaultPodSpec, validatePodTemplate } from './pod-strategy.ts'
import { messageOf } from './status-error.ts'

type Workload = V1Deployment | V1ReplicaSet | V1DaemonSet

const rollingUpdate = { type: 'RollingUpdate' }

/** apps/v1 defaults of a Deployment. */
export function defaultDeployment(deployment: V1Deployment): void {
  fill(deployment, {
    spec: { replicas: 1, revisionHistoryLimit: 10, progressDeadlineSeconds: 600, strategy: rollingUpdate },
    status: {},
  })
  const { strategy, template } = deployment.spec ?? {}
  if (strategy?.type === 'RollingUpdate') fill(strategy, { rollingUpdate: { maxUnavailable: '25%', maxSurge: '25%' } })
  defaultPodSpec(template?.spec)
}

/** apps/v1 defaults of a ReplicaSet. */
export function defaultReplicaSet(replicaSet: V1ReplicaSet): void {
  fill(replicaSet, { spec: { replicas: 1 }, status: { replicas: 0 } })
  defaultPodSpec(replicaSet.spec?.template?.spec)
}

/** apps/v1 defaults of a DaemonSet. */
export function defaultDaemonSet(daemonSet: V1DaemonSet): void {
  fill(daemonSet, {
    spec: { revisionHistoryLimit: 10, updateStrategy: rollingUpdate },
    status: { currentNumberScheduled: 0, desiredNumberScheduled: 0, numberMisscheduled: 0, numberReady: 0 },
  })
  const { updateStrategy, template } = daemonSet.spec ?? {}
  if (updateStrategy?.type === 'RollingUpdate')
    fill(updateStrategy, { rollingUpdate: { maxUnavailable: 1, maxSurge: 0 } })
  defaultPodSpec(template?.spec)
}

/** batch/v1 defaults of a Job; a new one gets the labels by which its Pods are found. */
export function defaultJob(job: V1Job, old?: V1Job): void {
  const { metadata, spec } = job
  if (spec?.parallelism === undefined) fill(job, { spec: { completions: 1 } })
  fill(job, {
    spec: {
      ...{ parallelism: 1, backoffLimit: 6, completionMode: 'NonIndexed', suspend: false },
      podReplacementPolicy: 'TerminatingOrFailed',
    },
    status: {},
  })
  defaultPodSpec(spec?.template?.spec)
  if (old || !metadata?.uid || !spec?.template) return
  const [uid, name] = [metadata.uid, metadata.name ?? '']
  const labels = { 'batch.kubernetes.io/controller-uid': uid, 'batch.kubernetes.io/job-name': name }
  const legacy = { 'controller-uid': uid, 'job-name': name }
  spec.selector = { matchLabels: { 'batch.kubernetes.io/controller-uid': uid } }
  const { template } = spec
  template.metadata = { ...template.metadata, labels: { ...template.metadata?.labels, ...labels, ...legacy } }
  metadata.labels ??= { ...template.metadata.labels }
}

/** batch/v1 defaults of a CronJob. */
export function defaultCronJob(cronJob: V1CronJob): void {
  const history = { successfulJobsHistoryLimit: 3, failedJobsHistoryLimit: 1 }
  fill(cronJob, { spec: { concurrencyPolicy: 'Allow', suspend: false, ...history }, status: {} })
  defaultPodSpec(cronJob.spec?.jobTemplate?.spec?.template?.spec)
}

/** Faults of a Deployment, ReplicaSet or DaemonSet; its selector can't change. */
export function validateWorkload({ spec }: Workload, errors: FieldErrors, old?: Workload): void {
  if (spec) validateSelector(spec, errors)
  else errors.required('spec')
  validatePodTemplate(spec?.template, 'spec.template', errors)
  errors.checkChoice('spec.template.spec.restartPolicy', spec?.template?.spec?.restartPolicy, ['Always'])
  errors.checkNotNegative('spec', spec, ['replicas', 'minReadySeconds', 'revisionHistoryLimit'])
  if (spec && 'strategy' in spec && spec.strategy) {
    const { type, rollingUpdate } = spec.strategy
    errors.checkChoice('spec.strategy.type', type, ['Recreate', 'RollingUpdate'])
    if (type === 'Recreate' && rollingUpdate)
      errors.forbidden('spec.strategy.rollingUpdate', "may not be specified when strategy `type` is 'Recreate'")
    validateRolling(rollingUpdate, 'spec.strategy.rollingUpdate', errors)
  }
  if (spec && 'updateStrategy' in spec && spec.updateStrategy) {
    errors.checkChoice('spec.updateStrategy.type', spec.updateStrategy.type, ['OnDelete', 'RollingUpdate'])
    validateRolling(spec.updateStrategy.rollingUpdate, 'spec.updateStrategy.rollingUpdate', errors)
  }
  if (old && !sameJson(spec?.selector, old.spec?.selector))
    errors.invalid('spec.selector', spec?.selector, 'field is immutable')
}

function validateSelector({ selector, template }: NonNullable<Workload['spec']>, errors: FieldErrors): void {
  if (!selector) {
    errors.required('spec.selector')
    return
  }
  const labels = template?.metadata?.labels ?? {}
  const { matchLabels = {}, matchExpressions = [] } = selector
  if (Object.keys(matchLabels).length + matchExpressions.length === 0) {
    errors.invalid('spec.selector', selector, 'empty selector is invalid for deployment')
  }
  errors.checkLabels('spec.selector.matchLabels', matchLabels)
  if (!matchesSelector(selector, labels)) {
    errors.invalid('spec.template.metadata.labels', labels, '`selector` does not match template `labels`')
  }
}

function validateRolling(
  rolling: { maxSurge?: number | string; maxUnavailable?: number | string } | undefined,
  path: string,
  errors: FieldErrors,
): void {
  errors.checkNotNegative(path, rolling, ['maxUnavailable', 'maxSurge'])
  for (const [field, value] of Object.entries(rolling ?? {})) {
    if (typeof value !== 'string' || /^\d+%$/.test(value)) continue
    const detail =
      "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
    errors.invalid(`${path}.${field}`, value, detail)
  }
  const isZero = (value: number | string | undefined) => value === 0 || value === '0%'
  if (isZero(rolling?.maxUnavailable) && isZero(rolling?.maxSurge)) {
    errors.invalid(`${path}.maxUnavailable`, rolling?.maxUnavailable, 'may not be 0 when `maxSurge` is 0')
  }
}

/** Faults of a Job; its template can't change. */
export function validateJob({ spec }: V1Job, errors: FieldErrors, old?: V1Job): void {
  validateJobSpec(spec, 'spec', errors)
  if (old && !sameJson(spec?.template, old.spec?.template)) {
    errors.invalid('spec.template', spec?.template, 'field is immutable')
  }
}

function validateJobSpec(spec: V1JobSpec | undefined, path: string, errors: FieldErrors): void {
  validatePodTemplate(spec?.template, `${path}.template`, errors)
  const restart = spec?.template?.spec?.restartPolicy
  errors.checkChoice(`${path}.template.spec.restartPolicy`, restart, ['OnFailure', 'Never'])
  errors.checkChoice(`${path}.completionMode`, spec?.completionMode, ['NonIndexed'])
  errors.checkNotNegative(path, spec, ['parallelism', 'completions', 'backoffLimit', 'ttlSecondsAfterFinished'])
}

/** Faults of a CronJob. */
export function validateCronJob({ spec }: V1CronJob, errors: FieldErrors): void {
  errors.checkChoice('spec.concurrencyPolicy', spec?.concurrencyPolicy, ['Allow', 'Forbid', 'Replace'])
  validateJobSpec(spec?.jobTemplate?.spec, 'spec.jobTemplate.spec', errors)
  const schedule = spec?.schedule ?? ''
  // Kubernetes has five fields or a name such as @hourly; croner would also read seconds and years.
  const fields = schedule.trim().split(/\s+/).length
  if (schedule === '') errors.required('spec.schedule')
  else if (!schedule.startsWith('@') && fields !== 5) {
    errors.invalid('spec.schedule', schedule, `expected exactly 5 fields, found ${fields}: [${schedule}]`)
  } else {
    try {
      new Cron(schedule, { timezone: spec?.timeZone ?? 'Etc/UTC' }).nextRun()
    } catch (error) {
      errors.invalid('spec.schedule', schedule, messageOf(error))
    }
  }
}
