import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { timeoutScale } from '../../../host/wait.ts'
import { hasReadyCondition, isTerminating } from '../../controllers/resources.ts'
import { cluster, useTestCluster, workers } from './cluster.ts'
import { deployment, service } from './manifests.ts'

useTestCluster()

const revision = 'deployment.kubernetes.io/revision'

function setImage(image: string) {
  const template = {
    spec: { containers: [{ name: 'nginx', image, ports: [{ containerPort: 80, name: 'http' }] }] },
  }
  cluster.api.patch('deployments', 'default', 'web', { spec: { template } })
}

function scale(replicas: number) {
  cluster.api.patch('deployments', 'default', 'web', { spec: { replicas } })
}

function condition(type: string) {
  return cluster.deployment('web').status?.conditions?.find((condition) => condition.type === type)
}

const images = () => cluster.pods('app=web').map((pod) => pod.spec.containers[0]?.image)
const active = () => cluster.replicaSets('web').filter(({ spec }) => (spec.replicas ?? 0) > 0)

/**
 * The fewest ready Pods, and the most that the ReplicaSets asked for, after any write from now on.
 */
function watchAvailability() {
  const seen = { fewestReady: Number.POSITIVE_INFINITY, mostWanted: 0 }
  cluster.api.store.subscribe(() => {
    const ready = cluster
      .pods()
      .filter((pod) => hasReadyCondition(pod) && !isTerminating(pod)).length
    const wanted = cluster
      .replicaSets('web')
      .reduce((sum, set) => sum + (set.spec.replicas ?? 0), 0)
    seen.fewestReady = Math.min(seen.fewestReady, ready)
    seen.mostWanted = Math.max(seen.mostWanted, wanted)
  })
  return seen
}

async function createWeb(settings: Parameters<typeof deployment>[1] = {}) {
  cluster.api.create('deployments', 'default', deployment('web', settings))
  await cluster.settled()
}

describe('a new Deployment', () => {
  test('has its Pods on two workers at once', async () => {
    await cluster.settled()
    const start = performance.now()
    cluster.api.create('deployments', 'default', deployment('web'))
    await cluster.until('both Pods are bound', () => {
      const pods = cluster.pods()
      return pods.length === 2 && pods.every(({ spec }) => spec.nodeName)
    })
    expect(performance.now() - start).toBeLessThan(1500 * timeoutScale())
    expect(cluster.pods().map(({ spec }) => spec.nodeName)).toEqual(expect.arrayContaining(workers))
  })

  test('of a few hundred Pods needs few writes beside those of the Pods themselves', async () => {
    // No turn of a work queue is over before it has taken all its keys, on a slow machine either.
    let now = 0
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 0.001))
    onTestFinished(() => clock.mockRestore())
    await cluster.settled()
    const writes = new Map<string, number>()
    cluster.api.store.subscribe(({ resource }) =>
      writes.set(resource, (writes.get(resource) ?? 0) + 1),
    )
    cluster.api.create('services', 'default', service('web'))
    await createWeb({ replicas: 200 })
    const { pods, events, ...others } = Object.fromEntries(writes)
    expect(cluster.deployment('web').status?.availableReplicas).toBe(200)
    // Created, bound, reported as scheduled and as running; an Event of its creation and one of its
    // node.
    expect([pods, events]).toEqual([4 * 200, 2 * 200 + 1])
    for (const [resource, count] of Object.entries(others)) expect(count, resource).toBeLessThan(15)
  })

  test('has the status that kubectl rollout status and kubectl wait read', async () => {
    await createWeb()
    const { status, metadata } = cluster.deployment('web')
    expect(status).toMatchObject({
      observedGeneration: 1,
      replicas: 2,
      updatedReplicas: 2,
      availableReplicas: 2,
    })
    expect(status?.unavailableReplicas).toBeUndefined()
    expect(condition('Available')).toMatchObject({
      status: 'True',
      reason: 'MinimumReplicasAvailable',
    })
    const [set] = cluster.replicaSets('web')
    expect(condition('Progressing')).toMatchObject({
      status: 'True',
      reason: 'NewReplicaSetAvailable',
      message: `ReplicaSet "${set?.metadata.name}" has successfully progressed.`,
    })
    expect(metadata.annotations?.[revision]).toBe('1')
    expect(set?.metadata.name).toBe(`web-${set?.metadata.labels?.['pod-template-hash']}`)
    expect(set?.metadata.name).toMatch(/^web-[bcdfghjklmnpqrstvwxz2456789]{1,10}$/)
    expect(set?.spec.selector.matchLabels).toEqual(set?.metadata.labels)
  })

  test('records its changes as Events', async () => {
    await createWeb()
    const name = cluster.replicaSets('web')[0]?.metadata.name
    expect(cluster.events('ScalingReplicaSet').map(({ message }) => message)).toEqual([
      `Scaled up replica set ${name} from 0 to 2`,
    ])
    const created = cluster.events('SuccessfulCreate').map(({ message }) => message)
    expect(created.sort()).toEqual(
      cluster.pods().map(({ metadata }) => `Created pod: ${metadata.name}`),
    )
  })

  test('is not available before its Pods are', async () => {
    cluster.kubelet.autoReady = false
    await createWeb()
    expect(condition('Available')).toMatchObject({
      status: 'False',
      reason: 'MinimumReplicasUnavailable',
    })
    expect(condition('Progressing')).toMatchObject({ status: 'True', reason: 'ReplicaSetUpdated' })
    expect(cluster.deployment('web').status?.unavailableReplicas).toBe(2)
    cluster.kubelet.setReady(cluster.pods()[0]?.metadata.name ?? '', true)
    await cluster.settled()
    expect(condition('Progressing')).toMatchObject({ status: 'True', reason: 'ReplicaSetUpdated' })
  })
})

describe('a rolling update', () => {
  const bounds = [
    { replicas: 4, maxSurge: '25%', maxUnavailable: '25%', fewest: 3, most: 5 },
    { replicas: 4, maxSurge: 1, maxUnavailable: 0, fewest: 4, most: 5 },
    { replicas: 4, maxSurge: 0, maxUnavailable: 1, fewest: 3, most: 4 },
    { replicas: 10, maxSurge: '25%', maxUnavailable: '25%', fewest: 8, most: 13 },
    { replicas: 1, maxSurge: 0, maxUnavailable: '25%', fewest: 0, most: 1 },
    { replicas: 3, maxSurge: '100%', maxUnavailable: 0, fewest: 3, most: 6 },
  ]
  test.each(bounds)(
    'of $replicas with surge $maxSurge, unavailable $maxUnavailable keeps within them',
    async (bound) => {
      const { replicas, maxSurge, maxUnavailable, fewest, most } = bound
      const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge, maxUnavailable } }
      await createWeb({ replicas, spec: { strategy } })
      const seen = watchAvailability()
      setImage('nginx:2')
      await cluster.settled()
      expect(images()).toEqual(Array(replicas).fill('nginx:2'))
      expect(seen).toEqual({ fewestReady: fewest, mostWanted: most })
      expect(cluster.deployment('web').metadata.annotations?.[revision]).toBe('2')
      expect(condition('Progressing')).toMatchObject({ reason: 'NewReplicaSetAvailable' })
    },
  )

  test('that never becomes ready stops and keeps the old Pods serving', async () => {
    await createWeb({ replicas: 4 })
    cluster.kubelet.autoReady = false
    setImage('nginx:broken')
    await cluster.settled()
    expect(images().sort()).toEqual([...Array(3).fill('nginx'), ...Array(2).fill('nginx:broken')])
    expect(condition('Progressing')).toMatchObject({ status: 'True', reason: 'ReplicaSetUpdated' })
    expect(condition('Available')).toMatchObject({ status: 'True' })
  })

  test('is undone by the earlier template, under a new revision', async () => {
    await createWeb()
    const [first] = cluster.replicaSets('web')
    setImage('nginx:2')
    await cluster.settled()
    const second = active()[0]?.metadata.name
    setImage('nginx')
    await cluster.settled()
    expect(active().map(({ metadata }) => metadata.name)).toEqual([first?.metadata.name])
    expect(active()[0]?.metadata.annotations?.[revision]).toBe('3')
    expect(cluster.deployment('web').metadata.annotations?.[revision]).toBe('3')
    expect(
      cluster.replicaSets('web').find(({ metadata }) => metadata.name === second)?.metadata
        .annotations?.[revision],
    ).toBe('2')
  })

  test('is started by kubectl rollout restart', async () => {
    await createWeb()
    const before = cluster.pods().map(({ metadata }) => metadata.name)
    const annotations = { 'kubectl.kubernetes.io/restartedAt': '2026-01-01T00:00:00Z' }
    cluster.api.patch('deployments', 'default', 'web', {
      spec: { template: { metadata: { annotations } } },
    })
    await cluster.settled()
    const after = cluster.pods()
    expect(after).toHaveLength(2)
    for (const pod of after) {
      expect(before).not.toContain(pod.metadata.name)
      expect(pod.metadata.annotations).toEqual(annotations)
    }
  })

  test('ends with one ReplicaSet when the template changes again half way', async () => {
    cluster.kubelet.autoReady = false
    await createWeb({ replicas: 4 })
    for (const image of ['nginx:2', 'nginx:3', 'nginx:4']) {
      setImage(image)
      await cluster.settled()
    }
    cluster.kubelet.autoReady = true
    for (const pod of cluster.pods()) cluster.kubelet.setReady(pod.metadata.name, true)
    await cluster.settled()
    expect(images()).toEqual(Array(4).fill('nginx:4'))
    expect(active()).toHaveLength(1)
  })

  test('waits while paused, and goes on when resumed', async () => {
    await createWeb()
    cluster.api.patch('deployments', 'default', 'web', { spec: { paused: true } })
    await cluster.settled()
    expect(condition('Progressing')).toMatchObject({
      status: 'Unknown',
      reason: 'DeploymentPaused',
    })
    setImage('nginx:2')
    scale(3)
    await cluster.settled()
    expect(images()).toEqual(['nginx', 'nginx', 'nginx'])
    cluster.api.patch('deployments', 'default', 'web', { spec: { paused: null } })
    await cluster.settled()
    expect(images()).toEqual(['nginx:2', 'nginx:2', 'nginx:2'])
    expect(condition('Progressing')).toMatchObject({
      status: 'True',
      reason: 'NewReplicaSetAvailable',
    })
  })
})

test('Recreate starts nothing before the last old Pod is gone', async () => {
  await createWeb({ spec: { strategy: { type: 'Recreate' } } })
  cluster.kubelet.autoFinish = false
  setImage('nginx:2')
  await cluster.settled()
  expect(images()).toEqual(['nginx', 'nginx'])
  expect(cluster.pods().every(({ metadata }) => metadata.deletionTimestamp)).toBe(true)
  for (const pod of cluster.pods()) {
    expect(images()).not.toContain('nginx:2')
    cluster.kubelet.finish(pod.metadata.name)
    await cluster.settled()
  }
  expect(images()).toEqual(['nginx:2', 'nginx:2'])
})

describe('scaling', () => {
  test('up and down, to nothing and back', async () => {
    await createWeb()
    for (const replicas of [5, 1, 0, 3]) {
      scale(replicas)
      await cluster.settled()
      expect(cluster.pods()).toHaveLength(replicas)
      expect(cluster.deployment('web').status?.availableReplicas ?? 0).toBe(replicas)
    }
    const name = cluster.replicaSets('web')[0]?.metadata.name
    const told = cluster.events('ScalingReplicaSet').map(({ message }) => message)
    expect(told).toContain(`Scaled down replica set ${name} from 5 to 1`)
  })

  test('during a rollout, which continues with the new size', async () => {
    await createWeb({ replicas: 4 })
    cluster.kubelet.autoReady = false
    setImage('nginx:2')
    await cluster.settled()
    scale(6)
    cluster.kubelet.autoReady = true
    for (const pod of cluster.pods()) cluster.kubelet.setReady(pod.metadata.name, true)
    await cluster.settled()
    expect(active()).toHaveLength(1)
    expect(images()).toEqual(Array(6).fill('nginx:2'))
  })
})
