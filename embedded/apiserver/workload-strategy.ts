import type * as k8s from '@kubernetes/client-node'
import { Cron } from 'croner'
import { matchesSelector } from '../../dataplane/label-selector.ts'
import { fill } from './json.ts'
import { podSpecDefaults, podTemplateRules } from './pod-strategy.ts'
import { messageOf } from './status-error.ts'
import { check, type Defaults, type FieldRules, type Strategy, under } from './strategy.ts'

type Rolling = { maxSurge?: number | string; maxUnavailable?: number | string }

const template = { spec: {} }
const templateDefaults: Defaults = under('spec.template.spec', podSpecDefaults)

const rollingUpdate = 'strategy|updateStrategy.rollingUpdate'
const percentFault =
  "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"

/** The rules for the specification of a Deployment, ReplicaSet or DaemonSet. */
const workloadRules: FieldRules = {
  selector: check.required,
  'selector.matchLabels': check.labels,
  ...under('template', podTemplateRules),
  'template.spec.restartPolicy': check.oneOf('Always'),
  'replicas|minReadySeconds|revisionHistoryLimit': check.notNegative,
  'strategy.type': check.oneOf('Recreate', 'RollingUpdate'),
  'updateStrategy.type': check.oneOf('OnDelete', 'RollingUpdate'),
  [`${rollingUpdate}.maxUnavailable|maxSurge`]: [
    check.notNegative,
    check.not((value) => typeof value === 'string' && !/^\d+%$/.test(value), percentFault),
  ],
  [rollingUpdate]: check.each<Rolling>(({ maxUnavailable, maxSurge }, field, errors) => {
    const isZero = (value: number | string | undefined) => value === 0 || value === '0%'
    if (isZero(maxUnavailable) && isZero(maxSurge))
      errors.invalid(`${field}.maxUnavailable`, maxUnavailable, 'may not be 0 when `maxSurge` is 0')
  }),
  strategy: check.each<k8s.V1DeploymentStrategy>(({ type, rollingUpdate }, field, errors) => {
    if (type === 'Recreate' && rollingUpdate)
      errors.forbidden(
        `${field}.rollingUpdate`,
        "may not be specified when strategy `type` is 'Recreate'",
      )
  }),
  '': check.each<k8s.V1DeploymentSpec>(({ selector, template }, field, errors) => {
    if (!selector) return
    const { matchLabels = {}, matchExpressions = [] } = selector
    const labels = template.metadata?.labels ?? {}
    if (Object.keys(matchLabels).length + matchExpressions.length === 0)
      errors.invalid(`${field}.selector`, selector, 'empty selector is invalid for deployment')
    if (!matchesSelector(selector, labels))
      errors.invalid(
        `${field}.template.metadata.labels`,
        labels,
        '`selector` does not match template `labels`',
      )
  }),
}

/** The strategy of a kind with these defaults of its specification and of its status. */
const workload = <Spec>(
  spec: (input: Spec) => object,
  status: object = {},
): Strategy<k8s.V1Deployment> => ({
  defaults: { '': { spec: { template }, status }, spec, ...templateDefaults },
  rules: under('spec', workloadRules),
  fixed: ['spec.selector'],
})

const rolling = (type: string | undefined, rollingUpdate: object) =>
  !type || type === 'RollingUpdate' ? { type: 'RollingUpdate', rollingUpdate } : {}

export const deploymentStrategy = workload(({ strategy }: k8s.V1DeploymentSpec) => ({
  replicas: 1,
  revisionHistoryLimit: 10,
  progressDeadlineSeconds: 600,
  strategy: rolling(strategy?.type, { maxUnavailable: '25%', maxSurge: '25%' }),
}))

export const replicaSetStrategy = workload(() => ({ replicas: 1 }), { replicas: 0 })

export const daemonSetStrategy = workload(
  ({ updateStrategy }: k8s.V1DaemonSetSpec) => ({
    revisionHistoryLimit: 10,
    updateStrategy: rolling(updateStrategy?.type, { maxUnavailable: 1, maxSurge: 0 }),
  }),
  { currentNumberScheduled: 0, desiredNumberScheduled: 0, numberMisscheduled: 0, numberReady: 0 },
)

const jobSpecRules: FieldRules = {
  ...under('template', podTemplateRules),
  'template.spec.restartPolicy': check.oneOf('OnFailure', 'Never'),
  completionMode: check.oneOf('NonIndexed'),
  'parallelism|completions|backoffLimit|ttlSecondsAfterFinished': check.notNegative,
}

/** batch/v1: a new Job gets the labels by which its Pods are found. */
export const jobStrategy: Strategy<k8s.V1Job> = {
  defaults: {
    '': { spec: { template }, status: {} },
    spec: ({ parallelism }: k8s.V1JobSpec) => ({
      ...(parallelism === undefined && { completions: 1 }),
      parallelism: 1,
      backoffLimit: 6,
      completionMode: 'NonIndexed',
      suspend: false,
      podReplacementPolicy: 'TerminatingOrFailed',
    }),
    ...templateDefaults,
  },
  prepare({ metadata = {}, spec }, old) {
    if (old || !spec) return
    const { uid = '', name = '' } = metadata
    const labels = {
      'batch.kubernetes.io/controller-uid': uid,
      'batch.kubernetes.io/job-name': name,
    }
    spec.selector = { matchLabels: { 'batch.kubernetes.io/controller-uid': uid } }
    fill(spec.template, {
      metadata: { labels: { ...labels, 'controller-uid': uid, 'job-name': name } },
    })
    metadata.labels ??= { ...spec.template.metadata?.labels }
  },
  rules: under('spec', jobSpecRules),
  fixed: ['spec.template'],
}

export const cronJobStrategy: Strategy<k8s.V1CronJob> = {
  defaults: {
    '': {
      spec: {
        concurrencyPolicy: 'Allow',
        suspend: false,
        successfulJobsHistoryLimit: 3,
        failedJobsHistoryLimit: 1,
        jobTemplate: { spec: { template } },
      },
      status: {},
    },
    ...under('spec.jobTemplate', templateDefaults),
  },
  rules: {
    'spec.schedule': check.required,
    spec: check.each<k8s.V1CronJobSpec>(({ schedule, timeZone }, field, errors) =>
      errors.invalid(`${field}.schedule`, schedule, ...scheduleFaults(schedule, timeZone)),
    ),
    'spec.concurrencyPolicy': check.oneOf('Allow', 'Forbid', 'Replace'),
    ...under('spec.jobTemplate.spec', jobSpecRules),
  },
}

/**
 * Kubernetes has five fields or a name such as @hourly; croner would also read seconds and years.
 */
function scheduleFaults(schedule = '', timezone = 'Etc/UTC'): string[] {
  const fields = schedule.trim().split(/\s+/).length
  if (!schedule) return []
  if (!schedule.startsWith('@') && fields !== 5)
    return [`expected exactly 5 fields, found ${fields}: [${schedule}]`]
  try {
    new Cron(schedule, { timezone }).nextRun()
    return []
  } catch (error) {
    return [messageOf(error)]
  }
}
