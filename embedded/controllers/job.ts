import { Cron } from 'croner'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import { type ControllerContext, writeStatus } from './context.ts'
import { EventRecorder } from './events.ts'
import { claim, controllerReference, isControlledBy, watchOwned } from './ownership.ts'
import { PodControl } from './pod-control.ts'
import { byCreation, type CronJob, countsAbove0, isActive, isReady, type Job, type Pod } from './resources.ts'

// pkg/controller/job: the delay after a failed Pod, doubled with each further one.
const firstDelayMs = 10_000
const longestDelayMs = 600_000

type Condition = NonNullable<NonNullable<Job['status']>['conditions']>[number]

/** The condition of a Job that has ended. */
const endOf = (job: Job): Condition | undefined =>
  job.status?.conditions?.find(({ type, status }) => (type === 'Complete' || type === 'Failed') && status === 'True')

/**
 * Runs the Pods of each Job until enough have succeeded, or too many have failed. Only `completions`, `parallelism` and
 * `backoffLimit` are read.
 */
export function startJobController(context: ControllerContext): void {
  const { api } = context
  const recorder = new EventRecorder(api, 'job-controller')
  const control = new PodControl(api, 'job-controller')

  const queue = context.reconcile<Job>('jobs', (job, key) => {
    if (job.metadata.deletionTimestamp || endOf(job)) return
    const podsOf = () => claim<Pod>(api, job, 'pods')
    const pods = podsOf()
    const active = pods.filter(isActive)
    const succeeded = pods.filter(({ status }) => status?.phase === 'Succeeded').length
    const failures = pods.filter(({ status }) => status?.phase === 'Failed')
    const { parallelism = 1, completions, backoffLimit = 6 } = job.spec
    const restarts = active.flatMap(({ status }) => status?.containerStatuses ?? [])
    const failed = failures.length + restarts.reduce((sum, { restartCount }) => sum + restartCount, 0)
    const isComplete = completions === undefined ? succeeded > 0 && active.length === 0 : succeeded >= completions
    const end = isComplete ? complete : failed > backoffLimit ? tooManyFailures : undefined
    if (end) for (const pod of active) control.delete(job, pod)
    else {
      const left = completions === undefined ? (succeeded > 0 ? 0 : parallelism) : completions - succeeded
      const missing = Math.min(parallelism, left) - active.length
      const wait = missing > 0 ? delayAfter(failures, Date.now()) : 0
      if (wait > 0) queue.addAfter(key, wait)
      else for (let count = 0; count < missing; count++) control.create(job, job.spec.template)
    }
    const running = podsOf().filter(isActive)
    const now = timestamp()
    writeStatus(api, 'jobs', job, {
      startTime: job.status?.startTime ?? now,
      ...(isComplete && { completionTime: now }),
      ...(end && { conditions: [{ ...end, status: 'True', lastProbeTime: now, lastTransitionTime: now }] }),
      ...(running.length > 0 && !end && { active: running.length, ready: running.filter(isReady).length }),
      ...countsAbove0({ succeeded, failed: failures.length }),
    })
    if (end) recorder.event(job, isComplete ? 'Normal' : 'Warning', isComplete ? 'Completed' : end.reason, end.message)
  })

  watchOwned(context, queue, 'pods', 'jobs')
}

const complete = {
  type: 'Complete',
  reason: 'CompletionsReached',
  message: 'Reached expected number of succeeded pods',
}
const tooManyFailures = {
  type: 'Failed',
  reason: 'BackoffLimitExceeded',
  message: 'Job has reached the specified backoff limit',
}

/** Milliseconds until a failed Pod may be replaced, counted from the creation of the last one. */
function delayAfter(failures: readonly Pod[], now: number): number {
  const last = failures.toSorted(byCreation).at(-1)
  if (!last) return 0
  const delay = Math.min(firstDelayMs * 2 ** (failures.length - 1), longestDelayMs)
  return Date.parse(last.metadata.creationTimestamp) + delay - now
}

/**
 * Creates a Job at each time of a CronJob's schedule, and deletes old ones. Times are in UTC unless `timeZone` is set;
 * `concurrencyPolicy` and deadlines are not read.
 */
export function startCronJobController(context: ControllerContext, now: () => number = Date.now): void {
  const { api } = context
  const recorder = new EventRecorder(api, 'cronjob-controller')

  const queue = context.reconcile<CronJob>('cronjobs', (cronJob, key) => {
    const { namespace, name, deletionTimestamp } = cronJob.metadata
    if (deletionTimestamp) return
    const { schedule, suspend, timeZone = 'Etc/UTC' } = cronJob.spec
    const owned = () => api.list<Job>('jobs', { namespace }).filter((job) => isControlledBy(job, cronJob))
    let lastScheduleTime = cronJob.status?.lastScheduleTime
    if (!suspend) {
      const times = new Cron(schedule, { timezone: timeZone })
      const since = new Date(lastScheduleTime ?? cronJob.metadata.creationTimestamp)
      const due = lastRunBetween(times, since, new Date(now()))
      if (due) {
        const { metadata, spec } = cronJob.spec.jobTemplate
        const job = `${name}-${Math.floor(due.getTime() / 60_000)}`
        if (!api.get('jobs', namespace, job)) {
          const { labels, annotations } = metadata ?? {}
          const own = { name: job, labels, annotations, ownerReferences: [controllerReference(cronJob)] }
          api.create<Job>('jobs', namespace, { metadata: own, spec })
          recorder.event(cronJob, 'Normal', 'SuccessfulCreate', `Created job ${job}`)
        }
        lastScheduleTime = timestamp(due.getTime())
      }
      const next = times.nextRun(new Date(now()))
      if (next) queue.addAfter(key, next.getTime() - now())
    }
    const { successfulJobsHistoryLimit = 3, failedJobsHistoryLimit = 1 } = cronJob.spec
    const limits = { Complete: successfulJobsHistoryLimit, Failed: failedJobsHistoryLimit }
    for (const [type, limit] of Object.entries(limits)) {
      const ended = owned().filter((job) => endOf(job)?.type === type)
      for (const job of ended.sort(byCreation).slice(0, Math.max(0, ended.length - limit)))
        api.delete('jobs', namespace, job.metadata.name)
    }
    const running = owned()
      .filter((job) => !endOf(job))
      .map(({ apiVersion, kind, metadata: { name, uid } }) => ({ apiVersion, kind, name, uid }))
    writeStatus(api, 'cronjobs', cronJob, { active: running.length > 0 ? running : undefined, lastScheduleTime })
  })

  watchOwned(context, queue, 'jobs', 'cronjobs')
}

/** The latest time of a schedule after `since`, up to `until`; earlier missed Jobs are not started. */
function lastRunBetween(times: Cron, since: Date, until: Date): Date | undefined {
  let last: Date | undefined
  for (let next = times.nextRun(since); next && next <= until; next = times.nextRun(next)) last = next
  return last
}
