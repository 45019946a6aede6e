import { Cron } from 'croner'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import { type ControllerContext, writeStatus } from './context.ts'
import { EventRecorder } from './events.ts'
import { claim, controllerReference, isControlledBy, watchOwned } from './ownership.ts'
import { PodControl } from './pod-control.ts'
import {
  byCreation,
  type CronJob,
  countsAbove0,
  hasReadyCondition,
  isActive,
  type Job,
  type Pod,
} from './resources.ts'

// pkg/controller/job: the delay after a failed Pod, doubled with each further one.
const firstDelayMs = 10_000
const longestDelayMs = 600_000

type JobCondition = NonNullable<NonNullable<Job['status']>['conditions']>[number]

/** The condition of a Job that has ended. */
const endOf = (job: Job): JobCondition | undefined =>
  job.status?.conditions?.find(
    ({ type, status }) => (type === 'Complete' || type === 'Failed') && status === 'True',
  )

/**
 * Runs the Pods of each Job until enough have succeeded or too many failed. Reads `completions`,
 * `parallelism` and `backoffLimit`.
 */
export function startJobController(context: ControllerContext): void {
  const { api } = context
  const recorder = new EventRecorder(api, 'job-controller')
  const control = new PodControl(api, 'job-controller')

  const queue = context.reconcile<Job>('jobs', (job, key) => {
    if (endOf(job)) return
    const podsOf = () => byState(claim<Pod>(api, job, 'pods'))
    const pods = podsOf()
    const end = resultOf(job, pods)
    if (end) for (const pod of pods.active) control.delete(job, pod)
    else createMissing(job, pods, key)
    const { active } = podsOf()
    writeStatus(api, 'jobs', job, jobStatus(job, { ...pods, active }, end))
    if (end === complete) recorder.event(job, 'Normal', 'Completed', end.message)
    else if (end) recorder.event(job, 'Warning', end.reason, end.message)
  })

  /** Creates the missing Pods of a Job; after a failure it first waits. */
  function createMissing(job: Job, pods: JobPods, key: string): void {
    const missing = missingPods(job, pods)
    const wait = missing > 0 ? delayAfter(pods.failed, Date.now()) : 0
    if (wait > 0) queue.addAfter(key, wait)
    else for (let count = 0; count < missing; count++) control.create(job, job.spec.template)
  }

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

type JobPods = Readonly<Record<'active' | 'succeeded' | 'failed', readonly Pod[]>>

function byState(pods: readonly Pod[]): JobPods {
  const inPhase = (phase: string) => pods.filter(({ status }) => status?.phase === phase)
  return {
    active: pods.filter(isActive),
    succeeded: inPhase('Succeeded'),
    failed: inPhase('Failed'),
  }
}

/** The condition with which a Job ends now; undefined while it goes on. */
function resultOf(
  { spec }: Job,
  { active, succeeded, failed }: JobPods,
): typeof complete | undefined {
  const { completions, backoffLimit = 6 } = spec
  const isIdle = succeeded.length > 0 && active.length === 0
  if (completions === undefined ? isIdle : succeeded.length >= completions) return complete
  const containers = active.flatMap(({ status }) => status?.containerStatuses ?? [])
  const restarts = containers.reduce((sum, { restartCount }) => sum + restartCount, 0)
  return failed.length + restarts > backoffLimit ? tooManyFailures : undefined
}

/** The status of a Job, which ends now with the condition `end` if there is one. */
function jobStatus(
  job: Job,
  { active, succeeded, failed }: JobPods,
  end: typeof complete | undefined,
): NonNullable<Job['status']> {
  const now = timestamp()
  return {
    startTime: job.status?.startTime ?? now,
    ...(end === complete && { completionTime: now }),
    ...(end && {
      conditions: [{ ...end, status: 'True', lastProbeTime: now, lastTransitionTime: now }],
    }),
    ...(active.length > 0 &&
      !end && { active: active.length, ready: active.filter(hasReadyCondition).length }),
    ...countsAbove0({ succeeded: succeeded.length, failed: failed.length }),
  }
}

/** The number of Pods to start. Without `completions`, none after the first success. */
function missingPods({ spec }: Job, { active, succeeded }: JobPods): number {
  const { parallelism = 1, completions = succeeded.length > 0 ? 0 : parallelism } = spec
  return Math.min(parallelism, completions - succeeded.length) - active.length
}

/** Milliseconds until a failed Pod may be replaced, counted from the creation of the last one. */
function delayAfter(failures: readonly Pod[], now: number): number {
  const last = failures.toSorted(byCreation).at(-1)
  if (!last) return 0
  const delay = Math.min(firstDelayMs * 2 ** (failures.length - 1), longestDelayMs)
  return Date.parse(last.metadata.creationTimestamp) + delay - now
}

/**
 * Creates a Job at each time of a CronJob's schedule, and deletes old ones. Times are in UTC unless
 * `timeZone` is set; `concurrencyPolicy` and deadlines are not read.
 */
export function startCronJobController(
  context: ControllerContext,
  now: () => number = Date.now,
): void {
  const { api } = context
  const recorder = new EventRecorder(api, 'cronjob-controller')

  const queue = context.reconcile<CronJob>('cronjobs', (cronJob, key) => {
    const { schedule, suspend, timeZone = 'Etc/UTC' } = cronJob.spec
    let lastScheduleTime = cronJob.status?.lastScheduleTime
    if (!suspend) {
      const times = new Cron(schedule, { timezone: timeZone })
      const since = new Date(lastScheduleTime ?? cronJob.metadata.creationTimestamp)
      const due = lastRunBetween(times, since, new Date(now()))
      if (due) {
        createJob(cronJob, due)
        lastScheduleTime = timestamp(due)
      }
      const next = times.nextRun(new Date(now()))
      if (next) queue.addAfter(key, next.getTime() - now())
    }
    deleteOldJobs(cronJob)
    const running = jobsOf(cronJob).filter((job) => !endOf(job))
    const active = running.map(({ apiVersion, kind, metadata: { name, uid } }) => ({
      apiVersion,
      kind,
      name,
      uid,
    }))
    writeStatus(api, 'cronjobs', cronJob, {
      active: active.length > 0 ? active : undefined,
      lastScheduleTime,
    })
  })

  const jobsOf = (cronJob: CronJob) =>
    api
      .list<Job>('jobs', { namespace: cronJob.metadata.namespace })
      .filter((job) => isControlledBy(job, cronJob))

  /** Creates the Job for a time, once: its name is that of the CronJob with the minute. */
  function createJob(cronJob: CronJob, due: Date): void {
    const { namespace, name } = cronJob.metadata
    const { metadata: { labels, annotations } = {}, spec } = cronJob.spec.jobTemplate
    const job = `${name}-${Math.floor(due.getTime() / 60_000)}`
    if (api.get('jobs', namespace, job)) return
    const metadata = {
      name: job,
      labels,
      annotations,
      ownerReferences: [controllerReference(cronJob)],
    }
    api.create<Job>('jobs', namespace, { metadata, spec })
    recorder.event(cronJob, 'Normal', 'SuccessfulCreate', `Created job ${job}`)
  }

  function deleteOldJobs(cronJob: CronJob): void {
    const { successfulJobsHistoryLimit = 3, failedJobsHistoryLimit = 1 } = cronJob.spec
    const limits = { Complete: successfulJobsHistoryLimit, Failed: failedJobsHistoryLimit }
    for (const [type, limit] of Object.entries(limits)) {
      const ended = jobsOf(cronJob).filter((job) => endOf(job)?.type === type)
      for (const { metadata } of ended.sort(byCreation).slice(0, Math.max(0, ended.length - limit)))
        api.delete('jobs', metadata.namespace, metadata.name)
    }
  }

  watchOwned(context, queue, 'jobs', 'cronjobs')
}

/**
 * The latest time of a schedule after `since`, up to `until`; earlier missed Jobs are not started.
 */
function lastRunBetween(times: Cron, since: Date, until: Date): Date | undefined {
  let last: Date | undefined
  for (let next = times.nextRun(since); next && next <= until; next = times.nextRun(next))
    last = next
  return last
}
