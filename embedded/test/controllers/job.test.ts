import { afterEach, beforeEach, expect, test } from 'vitest'
import type { CronJob, Job, Pod } from '../../controllers/resources.ts'
import { startTestCluster, type TestCluster } from './cluster.ts'

let cluster: TestCluster
let now = Date.now

beforeEach(() => {
  now = Date.now
  cluster = startTestCluster({ now: () => now() })
})
afterEach(() => {
  expect(cluster.faults).toEqual([])
  cluster.stop()
})

const template = {
  spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'busybox' }] },
}

function createJob(spec: object = {}): void {
  cluster.api.create('jobs', 'default', { metadata: { name: 'work' }, spec: { template, ...spec } })
}

const job = (name = 'work'): Job | undefined => cluster.api.get<Job>('jobs', 'default', name)
const condition = (type: string) =>
  job()?.status?.conditions?.find((one) => one.type === type && one.status === 'True')?.reason
const podsIn = (phase: string): Pod[] =>
  cluster.pods().filter(({ status }) => status?.phase === phase)
const end = (pod: Pod | undefined, phase: 'Succeeded' | 'Failed') =>
  cluster.kubelet.setPhase(pod?.metadata.name ?? '', phase)

/** Ends the Pods that run, as many times as there are phases. */
async function endEach(...phases: ('Succeeded' | 'Failed')[]): Promise<void> {
  for (const phase of phases) {
    await cluster.until('a Pod runs', () => podsIn('Running').length > 0)
    end(podsIn('Running')[0], phase)
  }
}

test('a Job runs one Pod to its end, finds it by generated labels, and is complete', async () => {
  createJob()
  await cluster.until('the Pod is active', () => job()?.status?.active === 1)
  const uid = job()?.metadata.uid
  expect(job()?.spec.selector?.matchLabels).toEqual({ 'batch.kubernetes.io/controller-uid': uid })
  expect(cluster.pods()[0]?.metadata.labels).toMatchObject({
    'job-name': 'work',
    'controller-uid': uid,
  })
  await endEach('Succeeded')
  await cluster.until('complete', () => condition('Complete') === 'CompletionsReached')
  expect(job()?.status).toMatchObject({ succeeded: 1, completionTime: expect.any(String) })
  expect(job()?.status?.active).toBeUndefined()
  await cluster.settled()
  expect(cluster.pods()).toHaveLength(1)
})

test('completions and parallelism: never more Pods at once, never more than are needed', async () => {
  createJob({ completions: 5, parallelism: 2 })
  for (let done = 0; done < 5; done++) {
    await cluster.until('enough Pods run', () => podsIn('Running').length === Math.min(2, 5 - done))
    end(podsIn('Running')[0], 'Succeeded')
  }
  await cluster.until('complete', () => condition('Complete') !== undefined)
  expect(podsIn('Succeeded')).toHaveLength(5)
})

test('a failed Pod is replaced only after the delay; more than backoffLimit fail the Job', async () => {
  createJob({ backoffLimit: 0 })
  await endEach('Failed')
  await cluster.until('failed', () => condition('Failed') === 'BackoffLimitExceeded')
  await cluster.settled()
  expect(cluster.pods()).toHaveLength(1)
  cluster.api.create('jobs', 'default', {
    metadata: { name: 'again' },
    spec: { template, backoffLimit: 1 },
  })
  await endEach('Failed')
  await cluster.until('the failure is counted', () => job('again')?.status?.failed === 1)
  await cluster.settled()
  expect(job('again')?.status?.active).toBeUndefined()
})

test('a CronJob creates a Job at each of its times, keeps as many as it should, and not while it is suspended', async () => {
  const start = Date.parse('2026-01-01T00:00:30Z') - Date.now()
  let minutes = 0
  now = () => Date.now() + start + minutes * 60_000
  const spec = {
    schedule: '*/2 * * * *',
    successfulJobsHistoryLimit: 1,
    jobTemplate: { spec: { template } },
  }
  cluster.api.create('cronjobs', 'default', { metadata: { name: 'tick' }, spec })
  const { creationTimestamp } =
    cluster.api.get<CronJob>('cronjobs', 'default', 'tick')?.metadata ?? {}
  expect(creationTimestamp).toBeDefined()
  const status = { lastScheduleTime: new Date(now()).toISOString() }
  cluster.api.patch('cronjobs', 'default', 'tick', { status }, 'status')
  const names = () => cluster.api.list<Job>('jobs').map(({ metadata }) => metadata.name)
  const advance = (by: number, patch: object = {}) => {
    minutes += by
    cluster.api.patch('cronjobs', 'default', 'tick', {
      metadata: { annotations: { minutes: String(minutes) } },
      ...patch,
    })
  }
  const at = (time: string) => `tick-${Date.parse(time) / 60_000}`
  await cluster.settled()
  expect(names()).toEqual([])
  advance(2)
  await cluster.until('the first Job', () => names().includes(at('2026-01-01T00:02:00Z')))
  await endEach('Succeeded')
  advance(4)
  await cluster.until('only the latest missed time is made up for', () =>
    names().includes(at('2026-01-01T00:06:00Z')),
  )
  expect(names()).not.toContain(at('2026-01-01T00:04:00Z'))
  await endEach('Succeeded')
  await cluster.until('one ended Job is kept', () => names().join() === at('2026-01-01T00:06:00Z'))
  advance(10, { spec: { suspend: true } })
  await cluster.settled()
  expect(names()).toEqual([at('2026-01-01T00:06:00Z')])
})

test.each([
  ['61 * * * *', 'spec.schedule'],
  ['* * * *', 'expected exactly 5 fields, found 4'],
])('the schedule "%s" is refused', (schedule, fault) => {
  const spec = { schedule, jobTemplate: { spec: { template } } }
  expect(() =>
    cluster.api.create('cronjobs', 'default', { metadata: { name: 'bad' }, spec }),
  ).toThrow(fault)
})

test('a Job whose Pods would always be restarted is refused', () => {
  const always = { spec: { ...template.spec, restartPolicy: 'Always' } }
  expect(() => createJob({ template: always })).toThrow('supported values: "Never", "OnFailure"')
})
