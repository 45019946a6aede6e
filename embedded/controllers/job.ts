import { Cron } from 'croner'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import { type ControllerContext, remove, writeStatus } from './context.ts'
import { controllerReference, inNamespaceOf, isControlledBy, watchOwned } from './ownership.ts'
import { createPodControl } from './pod-control.ts'
import { type CronJob, isActive, isReady, type Job, type Pod } from './resources.ts'

// pkg/controller/job: the delay after a failed Pod, doubled with each further one.
const firstDelayMs = 10_000
const longestDelayMs = 600_000

type Condition = NonNullable<NonNullable<Job['status']>['conditions']>[number]

/** The condition of a Job that has ended. */
const endOf = (job: Job): Condition | undefined =>
  job.status?.conditions?.find(({ type, status }) => (type === 'Complete' || type === 'Failed') && status === 'True')

/** Runs the Pods of each Job until enough have succeeded, or too many have failed; of `completionMode`, only NonIndexed. */
export function startJobController(context: ControllerContext): void {
  const { api } = context
  const recorder = context.recorder('job-controller')
  const control = createPodControl(context, recorder)

  const queue = context.reconcile<Job>('jobs', (job, key) => {
    if (job.metadata.deletionTimestamp) return
    const podsOf = () => api.list<Pod>('pods', inNamespaceOf(job)).filter((pod) => isControlledBy(pod, job))
    const ended = endOf(job)
    if (ended) {
      const { ttlSecondsAfterFinished: ttl } = job.spec
      if (ttl === undefined) return
      const left = Date.parse(ended.lastTransitionTime ?? '') + ttl * 1000 - Date.now()
      if (left > 0) queue.addAfter(key, left)
      else remove(api, 'jobs', job.metadata)
      return
    }
    const now = Date.now()
    const pods = podsOf()
    const active = pods.filter(isActive)
    const succeeded = pods.filter(({ status }) => status?.phase === 'Succeeded').length
    const failures = pods.filter(({ status }) => status?.phase === 'Failed')
    const { parallelism = 1, completions, backoffLimit = 6, suspend, activeDeadlineSeconds } = job.spec
    const startTime = suspend ? undefined : (job.status?.startTime ?? timestamp())
    const deadline =
      startTime && activeDeadlineSeconds ? Date.parse(startTime) + activeDeadlineSeconds * 1000 : undefined
    const restarts = active.flatMap(({ status }) => status?.containerStatuses ?? [])
    const failed = failures.length + restarts.reduce((sum, { restartCount }) => sum + restartCount, 0)
    const end = verdict({
      late: deadline !== undefined && now >= deadline,
      failed: failed > backoffLimit,
      complete: completions === undefined ? succeeded > 0 && active.length === 0 : succeeded >= completions,
    })
    if (deadline) queue.addAfter(key, Math.max(0, deadline - now))
    if (end || suspend) for (const pod of active) control.delete(job, pod)
    else {
      const left = completions === undefined ? (succeeded > 0 ? 0 : parallelism) : completions - succeeded
      const missing = Math.min(parallelism, left) - active.length
      const wait = missing > 0 ? delayAfter(failures, now) : 0
      if (wait > 0) queue.addAfter(key, wait)
      else for (let count = 0; count < missing; count++) control.create(job, job.spec.template)
    }
    const running = podsOf().filter(isActive)
    const conditions: Condition[] = end
      ? [{ ...end, status: 'True', lastProbeTime: timestamp(), lastTransitionTime: timestamp() }]
      : suspend
        ? [{ type: 'Suspended', status: 'True', reason: 'JobSuspended', message: 'Job suspended' }]
        : []
    writeStatus(api, 'jobs', job, {
      ...(startTime && { startTime }),
      ...(end?.type === 'Complete' && { completionTime: timestamp() }),
      ...(conditions.length > 0 && { conditions }),
      ...(running.length > 0 && !end && { active: running.length, ready: running.filter(isReady).length }),
      ...(succeeded > 0 && { succeeded }),
      ...(failures.length > 0 && { failed: failures.length }),
    })
    if (end?.type === 'Complete') recorder.event(job, 'Normal', 'Completed', 'Job completed')
    else if (end) recorder.event(job, 'Warning', end.reason ?? '', end.message ?? '')
  })

  watchOwned(context, queue, 'pods', { resource: 'jobs', kind: 'Job' })
}

type End = Pick<Condition, 'type' | 'reason' | 'message'>

function verdict(job: { late: boolean; failed: boolean; complete: boolean }): End | undefined {
  if (job.complete)
    return { type: 'Complete', reason: 'CompletionsReached', message: 'Reached expected number of succeeded pods' }
  if (job.late) {
    return { type: 'Failed', reason: 'DeadlineExceeded', message: 'Job was active longer than specified deadline' }
  }
  if (!job.failed) return undefined
  return { type: 'Failed', reason: 'BackoffLimitExceeded', message: 'Job has reached the specified backoff limit' }
}

/** Milliseconds until a failed Pod may be replaced, counted from the end of the last one. */
function delayAfter(failures: readonly Pod[], now: number): number {
  if (failures.length === 0) return 0
  const ends = failures.map(({ metadata, status }) => {
    const finished = (status?.containerStatuses ?? []).map(({ state }) =>
      Date.parse(state?.terminated?.finishedAt ?? ''),
    )
    return Math.max(Date.parse(metadata.creationTimestamp), ...finished.filter((time) => !Number.isNaN(time)))
  })
  return Math.max(...ends) + Math.min(firstDelayMs * 2 ** (failures.length - 1), longestDelayMs) - now
}

/**
 * Creates a Job at each time of a CronJob's schedule, and deletes old ones. Times are in UTC unless
 * `timeZone` is set.
 */
export function startCronJobController(context: ControllerContext, now: () => number = Date.now): void {
  const { api } = context
  const recorder = context.recorder('cronjob-controller')

  const queue = context.reconcile<CronJob>('cronjobs', (cronJob, key) => {
    const { namespace, name, deletionTimestamp } = cronJob.metadata
    if (deletionTimestamp) return
    const { schedule, suspend, concurrencyPolicy, timeZone = 'Etc/UTC', startingDeadlineSeconds } = cronJob.spec
    const owned = () => api.list<Job>('jobs', inNamespaceOf(cronJob)).filter((job) => isControlledBy(job, cronJob))
    const active = () => owned().filter((job) => !endOf(job))
    let lastScheduleTime = cronJob.status?.lastScheduleTime
    if (!suspend) {
      const times = new Cron(schedule, { timezone: timeZone })
      const since = new Date(lastScheduleTime ?? cronJob.metadata.creationTimestamp)
      const due = lastRunBetween(times, since, new Date(now()))
      const late =
        due && startingDeadlineSeconds !== undefined && now() - due.getTime() > startingDeadlineSeconds * 1000
      if (due && !late && !(concurrencyPolicy === 'Forbid' && active().length > 0)) {
        if (concurrencyPolicy === 'Replace') for (const job of active()) remove(api, 'jobs', job.metadata)
        const { metadata, spec } = cronJob.spec.jobTemplate
        const job = `${name}-${Math.floor(due.getTime() / 60_000)}`
        if (!api.get('jobs', namespace, job)) {
          api.create<Job>('jobs', namespace, {
            metadata: { ...metadata, name: job, ownerReferences: [controllerReference(cronJob)] },
            spec,
          })
          recorder.event(cronJob, 'Normal', 'SuccessfulCreate', `Created job ${job}`)
        }
        lastScheduleTime = timestamp(due.getTime())
      }
      const next = times.nextRun(new Date(now()))
      if (next) queue.addAfter(key, next.getTime() - now())
    }
    const { successfulJobsHistoryLimit = 3, failedJobsHistoryLimit = 1 } = cronJob.spec
    for (const [type, limit] of [
      ['Complete', successfulJobsHistoryLimit] as const,
      ['Failed', failedJobsHistoryLimit] as const,
    ]) {
      const ended = owned().filter((job) => endOf(job)?.type === type)
      ended.sort((one, other) => (one.metadata.creationTimestamp < other.metadata.creationTimestamp ? -1 : 1))
      for (const job of ended.slice(0, Math.max(0, ended.length - limit))) remove(api, 'jobs', job.metadata)
    }
    const completed = owned().flatMap(({ status }) => status?.completionTime ?? [])
    const lastSuccessfulTime = [...completed, cronJob.status?.lastSuccessfulTime ?? ''].sort().at(-1)
    const running = active().map(({ apiVersion, kind, metadata }) => ({
      ...{ apiVersion, kind, name: metadata.name, uid: metadata.uid },
      ...(namespace !== undefined && { namespace }),
    }))
    writeStatus(api, 'cronjobs', cronJob, {
      ...(running.length > 0 && { active: running }),
      ...(lastScheduleTime && { lastScheduleTime }),
      ...(lastSuccessfulTime && { lastSuccessfulTime }),
    })
  })

  watchOwned(context, queue, 'jobs', { resource: 'cronjobs', kind: 'CronJob' })
}

/** The latest time of a schedule after `since`, up to `until`; earlier missed Jobs are not started. */
function lastRunBetween(times: Cron, since: Date, until: Date): Date | undefined {
  let last: Date | undefined
  for (let next = times.nextRun(since); next && next <= until; next = times.nextRun(next)) last = next
  return last
}
