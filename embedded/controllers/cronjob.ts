import { Cron } from 'croner'
import { type ControllerContext, keyOf, splitKey } from './context.ts'
import { endOf } from './job.ts'
import { controllerOf, controllerReference, inNamespaceOf, isControlledBy } from './ownership.ts'
import type { CronJob, Job } from './resources.ts'
import { writeStatus } from './status.ts'
import { timestamp } from './time.ts'

/** Creates a Job at each time of a CronJob's schedule, and deletes old ones. Times are of UTC unless `timeZone` is set. */
export function startCronJobController(context: ControllerContext, now: () => number = Date.now): void {
  const { api } = context
  const recorder = context.recorder('cronjob-controller')

  const queue = context.queue((key) => {
    const { namespace, name } = splitKey(key)
    const cronJob = api.get<CronJob>('cronjobs', namespace, name)
    if (!cronJob || cronJob.metadata.deletionTimestamp) return
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
        if (concurrencyPolicy === 'Replace')
          for (const job of active())
            api.delete('jobs', namespace, job.metadata.name, { propagationPolicy: 'Background' })
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
      for (const job of ended.slice(0, Math.max(0, ended.length - limit)))
        api.delete('jobs', namespace, job.metadata.name, { propagationPolicy: 'Background' })
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

  context.watch<CronJob>('cronjobs', ({ type, object }) => {
    if (type !== 'DELETED') queue.add(keyOf(object))
  })
  context.watch<Job>('jobs', ({ object }) => {
    const owner = controllerOf(object)
    if (owner?.kind === 'CronJob') queue.add(`${object.metadata.namespace}/${owner.name}`)
  })
}

/** The latest time of a schedule after `since`, up to `until`; Jobs that were missed before it are not made up for. */
function lastRunBetween(times: Cron, since: Date, until: Date): Date | undefined {
  let last: Date | undefined
  for (let next = times.nextRun(since); next && next <= until; next = times.nextRun(next)) last = next
  return last
}
