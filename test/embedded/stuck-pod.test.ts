import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import type { Cluster } from '../../cluster/driver.ts'
import { selectCluster } from '../../cluster/select.ts'
import { LabBench } from '../../course/lab-bench.ts'
import { stuckPod } from '../../course/stuck-pod.ts'
import { silent } from '../../host/progress.ts'

let cluster: Cluster
let bench: LabBench
let notes: string[]

beforeAll(async () => {
  cluster = await selectCluster('embedded', `k8s-guide-stuck-pod-${process.pid}`)
  await cluster.up(silent)
  bench = await LabBench.open(cluster, { ...silent, note: (text) => notes.push(text) })
})
afterAll(() => cluster?.down(silent))

beforeEach(() => {
  notes = []
  // The deadline of two minutes, in six seconds.
  vi.stubEnv('LAB_TIMEOUT_SCALE', '0.05')
})
afterEach(() => vi.unstubAllEnvs())

const container = { name: 'main', image: 'nginx' }

test.each([
  ['pulling', 'ErrImagePull', { containers: [{ ...container, image: 'registry.example/none:1' }] }],
  [
    'configured',
    'CreateContainerConfigError',
    {
      containers: [
        {
          ...container,
          env: [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'no', key: 'a' } } }],
        },
      ],
    },
  ],
  ['selective', 'Unschedulable', { containers: [container], nodeSelector: { no: 'node' } }],
])(
  'what the Pod %s waits for is told once while a lab waits, and at its deadline: %s',
  async (name, reason, spec) => {
    await bench.create('Pod', name, {}, { spec })
    const told = `Pod ${name} does not start: (${reason}|ImagePullBackOff) \\(.+\\)\\.`
    await expect(bench.podReady(name)).rejects.toThrow(
      new RegExp(
        `^Waited 6 s for Pod ${name} to be ready without success\\. ${told} kubectl describe pod ${name} shows its events\\.$`,
      ),
    )
    expect(notes).toEqual([expect.stringMatching(new RegExp(`^${told}$`))])
  },
)

test('of a Pod that starts nothing is told, whatever others wait for', async () => {
  vi.unstubAllEnvs()
  await bench.create('Pod', 'present', {}, { spec: { containers: [container] } })
  await bench.podReady('present')
  expect(notes).toEqual([])
  const { items } = await bench.client.core.listNamespacedPod({ namespace: 'default' })
  expect(items).toHaveLength(4)
  expect(stuckPod(items.filter(({ metadata }) => metadata?.name === 'present'))).toBeUndefined()
})
