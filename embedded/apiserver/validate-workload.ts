import type {
  V1CronJob,
  V1DaemonSet,
  V1Deployment,
  V1JobSpec,
  V1LabelSelector,
  V1ReplicaSet,
} from '@kubernetes/client-node'
import { Cron } from 'croner'
import { matchesSelector } from '../../dataplane/label-selector.ts'
import { type FieldErrors, qualifiedNameFaults, validateLabels } from './field-errors.ts'
import { sameJson } from './json.ts'
import { oneOf, validatePodTemplate } from './validate-pod.ts'

type Workload = V1Deployment | V1ReplicaSet | V1DaemonSet

/** Faults of a Deployment, ReplicaSet or DaemonSet. */
export function validateWorkload(workload: Workload, errors: FieldErrors): void {
  const spec = workload.spec
  if (!spec) {
    errors.required('spec.selector')
    return
  }
  validateSelector(spec.selector, spec.template?.metadata?.labels ?? {}, errors)
  validatePodTemplate(spec.template, 'spec.template', errors)
  const restart = spec.template?.spec?.restartPolicy
  if (restart && restart !== 'Always') errors.notSupported('spec.template.spec.restartPolicy', restart, ['Always'])
  for (const field of ['replicas', 'minReadySeconds', 'revisionHistoryLimit', 'progressDeadlineSeconds'] as const) {
    const value = field in spec ? spec[field as keyof typeof spec] : undefined
    if (typeof value === 'number' && value < 0) {
      errors.invalid(`spec.${field}`, value, 'must be greater than or equal to 0')
    }
  }
  if ('strategy' in spec && spec.strategy) {
    oneOf(spec.strategy.type, 'spec.strategy.type', ['Recreate', 'RollingUpdate'], errors)
    if (spec.strategy.type === 'Recreate' && spec.strategy.rollingUpdate) {
      errors.forbidden('spec.strategy.rollingUpdate', "may not be specified when strategy `type` is 'Recreate'")
    }
    validateRolling(spec.strategy.rollingUpdate, 'spec.strategy.rollingUpdate', errors)
  }
  if ('updateStrategy' in spec && spec.updateStrategy) {
    oneOf(spec.updateStrategy.type, 'spec.updateStrategy.type', ['OnDelete', 'RollingUpdate'], errors)
    validateRolling(spec.updateStrategy.rollingUpdate, 'spec.updateStrategy.rollingUpdate', errors)
  }
}

/** The selector of a workload can't change in apps/v1. */
export function validateWorkloadUpdate(workload: Workload, old: Workload, errors: FieldErrors): void {
  if (!sameJson(workload.spec?.selector, old.spec?.selector)) {
    errors.invalid('spec.selector', workload.spec?.selector, 'field is immutable')
  }
}

/** Faults of a Job's specification, or of a CronJob's template. */
export function validateJobSpec(spec: V1JobSpec | undefined, path: string, errors: FieldErrors): void {
  validatePodTemplate(spec?.template, `${path}.template`, errors)
  const restart = spec?.template?.spec?.restartPolicy
  if (restart === 'Always') {
    errors.notSupported(`${path}.template.spec.restartPolicy`, restart, ['OnFailure', 'Never'])
  }
  if (spec?.completionMode === 'Indexed') errors.notSupported(`${path}.completionMode`, 'Indexed', ['NonIndexed'])
  for (const field of ['parallelism', 'completions', 'backoffLimit', 'ttlSecondsAfterFinished'] as const) {
    const value = spec?.[field]
    if (value !== undefined && value < 0)
      errors.invalid(`${path}.${field}`, value, 'must be greater than or equal to 0')
  }
}

/** Faults of a CronJob. */
export function validateCronJob({ spec }: V1CronJob, errors: FieldErrors): void {
  oneOf(spec?.concurrencyPolicy, 'spec.concurrencyPolicy', ['Allow', 'Forbid', 'Replace'], errors)
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
      errors.invalid('spec.schedule', schedule, error instanceof Error ? error.message : String(error))
    }
  }
}

function validateSelector(
  selector: V1LabelSelector | undefined,
  labels: Record<string, string>,
  errors: FieldErrors,
): void {
  if (!selector) {
    errors.required('spec.selector')
    return
  }
  const expressions = selector.matchExpressions ?? []
  if (Object.keys(selector.matchLabels ?? {}).length + expressions.length === 0) {
    errors.invalid('spec.selector', selector, 'empty selector is invalid for deployment')
  }
  validateLabels(selector.matchLabels, 'spec.selector.matchLabels', errors)
  for (const [index, expression] of expressions.entries()) {
    const path = `spec.selector.matchExpressions[${index}]`
    for (const fault of qualifiedNameFaults(expression.key)) errors.invalid(`${path}.key`, expression.key, fault)
    if (expression.operator === 'In' || expression.operator === 'NotIn') {
      if (!expression.values?.length) {
        errors.required(`${path}.values`, "must be specified when `operator` is 'In' or 'NotIn'")
      }
    } else if (expression.operator === 'Exists' || expression.operator === 'DoesNotExist') {
      if (expression.values?.length) {
        errors.forbidden(`${path}.values`, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
      }
    } else errors.invalid(`${path}.operator`, expression.operator, 'not a valid selector operator')
  }
  if (!matchesSelector(selector, labels)) {
    errors.invalid('spec.template.metadata.labels', labels, '`selector` does not match template `labels`')
  }
}

function validateRolling(
  rolling: { maxSurge?: number | string; maxUnavailable?: number | string } | undefined,
  path: string,
  errors: FieldErrors,
): void {
  for (const field of ['maxUnavailable', 'maxSurge'] as const) {
    const value = rolling?.[field]
    if (typeof value === 'string' && !/^\d+%$/.test(value)) {
      errors.invalid(
        `${path}.${field}`,
        value,
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
      )
    }
    if (typeof value === 'number' && value < 0)
      errors.invalid(`${path}.${field}`, value, 'must be greater than or equal to 0')
  }
  const zero = (value: number | string | undefined) => value === 0 || value === '0%'
  if (rolling && zero(rolling.maxUnavailable) && zero(rolling.maxSurge)) {
    errors.invalid(`${path}.maxUnavailable`, rolling.maxUnavailable, 'may not be 0 when `maxSurge` is 0')
  }
}
