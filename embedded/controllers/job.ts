import { type ControllerContext, keyOf, splitKey } from './context.ts'
import { controllerOf, inNamespaceOf, isControlledBy } from './ownership.ts'
import { isActive, isReady } from './pod-condition.ts'
import { createPodControl } from './pod-control.ts'
import type { Job, Pod } from './resources.ts'
import { writeStatus } from './status.ts'
import { timestamp } from './time.ts'

// pkg/controller/job: the delay after a failed Pod, doubled with each further one.
const firstDelayMs = 10_000
const longestDelayMs = 600_000

type Condition = NonNullable<NonNullable<Job['status']>['conditions']>[number]

/** The condition that tells that a Job has ended. */
export const endOf = (job: Job): Condition | undefined =>
  job.status?.conditions?.find(({ type, status }) => (type === 'Complete' || type === 'Failed') && status === 'True')

/** Runs the Pods of each Job until enough have succeeded, or too many have failed; of `completionMode`, only NonIndexed. */
export function startJobController(context: ControllerContext): void {
  const { api } = context
  const recorder = context.recorder('job-controller')
  const control = createPodControl(context, recorder)

  const queue = context.queue((key) => {
    const { namespace, name } = splitKey(key)
    const job = api.get<Job>('jobs', namespace, name)
    if (!job || job.metadata.deletionTimestamp) return
    const ended = endOf(job)
    if (ended) {
      const { ttlSecondsAfterFinished: ttl } = job.spec
      if (ttl === undefined) return
      const left = Date.parse(ended.lastTransitionTime ?? '') + ttl * 1000 - Date.now()
      if (left > 0) queue.addAfter(key, left)
      else api.delete('jobs', namespace, name, { propagationPolicy: 'Background' })
      return
    }
    const now = Date.now()
    const pods = api.list<Pod>('pods', inNamespaceOf(job)).filter((pod) => isControlledBy(pod, job))
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
    const running = api.list<Pod>('pods', inNamespaceOf(job)).filter((pod) => isControlledBy(pod, job) && isActive(pod))
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

  context.watch<Job>('jobs', ({ type, object }) => {
    if (type !== 'DELETED') queue.add(keyOf(object))
  })
  context.watch<Pod>('pods', ({ object }) => {
    const owner = controllerOf(object)
    if (owner?.kind === 'Job') queue.add(`${object.metadata.namespace}/${owner.name}`)
  })
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
