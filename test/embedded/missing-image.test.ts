import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type { Cluster } from '../../cluster/driver.ts'
import { selectCluster } from '../../cluster/select.ts'
import { LabBench } from '../../course/lab-bench.ts'
import { missingImage } from '../../course/missing-image.ts'
import { silent } from '../../host/progress.ts'

let cluster: Cluster
let bench: LabBench
const notes: string[] = []

beforeAll(async () => {
  cluster = await selectCluster('embedded', `k8s-guide-missing-image-${process.pid}`)
  await cluster.up(silent)
  bench = await LabBench.open(cluster, { ...silent, note: (text) => notes.push(text) })
})
afterAll(async () => {
  vi.unstubAllEnvs()
  await cluster?.down(silent)
})

const podOf = (image: string) => ({ spec: { containers: [{ name: 'main', image }] } })

test('an image that cannot be pulled is told once while a lab waits, and at its deadline with the next command', async () => {
  const image = 'registry.example/none:1'
  await bench.create('Pod', 'waiting', {}, podOf(image))
  // The deadline of two minutes, in six seconds.
  vi.stubEnv('LAB_TIMEOUT_SCALE', '0.05')
  await expect(bench.podReady('waiting')).rejects.toThrow(
    /^Waited 6 s for Pod waiting to be ready without success\. Pod waiting waits for its image "registry\.example\/none:1", which can't be pulled \(.*not found.*\)\. kubectl describe pod waiting shows why;/,
  )
  expect(notes).toEqual([
    expect.stringMatching(
      /^Pod waiting waits for its image "registry\.example\/none:1".* The kubelet tries again\.$/,
    ),
  ])
  vi.unstubAllEnvs()

  await bench.create('Pod', 'present', {}, podOf('nginx'))
  await bench.podReady('present')
  const { items } = await bench.client.core.listNamespacedPod({ namespace: 'default' })
  expect(missingImage(items)).toMatchObject({ pod: 'waiting', image })
  const present = items.filter(({ metadata }) => metadata?.name === 'present')
  expect(present).toHaveLength(1)
  expect(missingImage(present)).toBeUndefined()
  expect(notes).toHaveLength(1)
})
