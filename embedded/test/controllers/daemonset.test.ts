import { describe, expect, test } from 'vitest'
import { type DaemonSet, hasReadyCondition, isTerminating } from '../../controllers/resources.ts'
import { cluster, controlPlane, createNode, useTestCluster, workers } from './cluster.ts'
import { daemonSet } from './manifests.ts'

useTestCluster()

const name = 'kube-proxy'
const pods = () => cluster.pods(`k8s-app=${name}`)
const nodes = () => pods().map(({ spec }) => spec.nodeName ?? '')
const stored = () => cluster.api.get<DaemonSet>('daemonsets', 'default', name)
const hashes = () => [
  ...new Set(pods().map(({ metadata }) => metadata.labels?.['controller-revision-hash'])),
]

function restart() {
  const annotations = { 'kubectl.kubernetes.io/restartedAt': '2026-01-01T00:00:00Z' }
  cluster.api.patch('daemonsets', 'default', name, {
    spec: { template: { metadata: { annotations } } },
  })
}

async function create(spec?: Record<string, unknown>, podSpec?: Record<string, unknown>) {
  cluster.api.create('daemonsets', 'default', daemonSet(name, spec, podSpec))
  await cluster.settled()
}

describe('placement', () => {
  test('one Pod on every node whose taints are tolerated', async () => {
    await create()
    expect(nodes().sort()).toEqual([controlPlane, ...workers])
  })

  test('leaves out tainted nodes without a toleration, follows nodeSelector and new nodes', async () => {
    await create({}, { tolerations: [], nodeSelector: { 'kubernetes.io/os': 'linux' } })
    expect(nodes().sort()).toEqual(workers)
    createNode(cluster.api, 'late')
    createNode(cluster.api, 'other', {}, { 'kubernetes.io/os': 'plan9' })
    await cluster.settled()
    expect(nodes().sort()).toEqual([...workers, 'late'].sort())
    cluster.api.patch('nodes', undefined, 'late', {
      metadata: { labels: { 'kubernetes.io/os': 'plan9' } },
    })
    await cluster.settled()
    expect(nodes().sort()).toEqual(workers)
  })

  test('runs only on the node that the template names', async () => {
    await create({}, { nodeName: workers[0] })
    expect(nodes()).toEqual([workers[0]])
    expect(stored()?.status).toMatchObject({ desiredNumberScheduled: 1, numberReady: 1 })
  })

  test('runs on cordoned nodes', async () => {
    cluster.api.patch('nodes', undefined, workers[0] ?? '', { spec: { unschedulable: true } })
    await create({}, { tolerations: [] })
    expect(nodes().sort()).toEqual(workers)
  })

  test('replaces a Pod that failed, was deleted, or does not belong there', async () => {
    await create()
    const [failed, deleted] = pods().map(({ metadata }) => metadata.name)
    cluster.kubelet.setPhase(failed ?? '', 'Failed')
    cluster.api.delete('pods', 'default', deleted ?? '')
    await cluster.settled()
    expect(nodes().sort()).toEqual([controlPlane, ...workers])
    expect(pods().map(({ metadata }) => metadata.name)).not.toContain(failed)
  })
})

describe('kubectl rollout restart', () => {
  test('replaces the Pods one node at a time, as rollout status reads', async () => {
    await create()
    const before = pods().map(({ metadata }) => metadata.name)
    const [oldHash] = hashes()
    let fewestReady = 3
    cluster.api.store.subscribe(() => {
      const ready = pods().filter((pod) => hasReadyCondition(pod) && !isTerminating(pod))
      fewestReady = Math.min(fewestReady, ready.length)
    })
    restart()
    await cluster.settled()
    expect(fewestReady).toBe(2)
    expect(pods()).toHaveLength(3)
    for (const pod of pods()) expect(before).not.toContain(pod.metadata.name)
    expect(hashes()).toHaveLength(1)
    expect(hashes()).not.toContain(oldHash)
    expect(stored()?.status).toEqual({
      currentNumberScheduled: 3,
      desiredNumberScheduled: 3,
      numberMisscheduled: 0,
      numberReady: 3,
      numberAvailable: 3,
      updatedNumberScheduled: 3,
      observedGeneration: 2,
    })
  })

  test('takes maxUnavailable nodes at once and stops at Pods that do not become ready', async () => {
    await create({
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 2 } },
    })
    const [oldHash] = hashes()
    cluster.kubelet.autoReady = false
    restart()
    await cluster.settled()
    const old = pods().filter(
      ({ metadata }) => metadata.labels?.['controller-revision-hash'] === oldHash,
    )
    expect(old).toHaveLength(1)
    expect(stored()?.status).toMatchObject({
      updatedNumberScheduled: 2,
      numberAvailable: 1,
      numberUnavailable: 2,
    })
    cluster.kubelet.autoReady = true
    for (const pod of pods()) cluster.kubelet.setReady(pod.metadata.name, true)
    await cluster.settled()
    expect(hashes()).toHaveLength(1)
    expect(stored()?.status).toMatchObject({ updatedNumberScheduled: 3, numberAvailable: 3 })
  })

  test('starts no Pod on a node before the old one is gone', async () => {
    await create()
    cluster.kubelet.autoFinish = false
    restart()
    await cluster.settled()
    expect(pods()).toHaveLength(3)
    const [going] = pods().filter(({ metadata }) => metadata.deletionTimestamp)
    cluster.kubelet.finish(going?.metadata.name ?? '')
    await cluster.until('the node has a new Pod', () =>
      pods().some(
        ({ spec, metadata }) =>
          spec.nodeName === going?.spec.nodeName && metadata.uid !== going?.metadata.uid,
      ),
    )
  })

  test('a rollout with maxSurge, which is not supported, replaces one Pod at a time', async () => {
    await create({
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
    })
    const [oldHash] = hashes()
    cluster.kubelet.autoReady = false
    restart()
    await cluster.settled()
    expect(stored()?.status).toMatchObject({ updatedNumberScheduled: 1, numberAvailable: 2 })
    cluster.kubelet.autoReady = true
    for (const pod of pods()) cluster.kubelet.setReady(pod.metadata.name, true)
    await cluster.settled()
    expect(hashes()).toHaveLength(1)
    expect(hashes()).not.toContain(oldHash)
  })

  test('does nothing by itself with OnDelete', async () => {
    await create({ updateStrategy: { type: 'OnDelete' } })
    const before = pods().map(({ metadata }) => metadata.name)
    restart()
    await cluster.settled()
    expect(pods().map(({ metadata }) => metadata.name)).toEqual(before)
    expect(stored()?.status?.updatedNumberScheduled).toBeUndefined()
  })
})
