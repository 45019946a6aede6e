import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startTestCluster, type TestCluster } from './cluster.ts'
import { deployment } from './manifests.ts'

let cluster: TestCluster
beforeEach(() => {
  cluster = startTestCluster()
})
afterEach(() => cluster.stop())

const active = () => cluster.replicaSets('web').filter(({ spec }) => (spec.replicas ?? 0) > 0)

function scale(replicas: number) {
  cluster.api.patch('deployments', 'default', 'web', { spec: { replicas } })
}

async function createWeb(settings: Parameters<typeof deployment>[1] = {}) {
  cluster.api.create('deployments', 'default', deployment('web', settings))
  await cluster.settled()
}

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

  test('during a rollout spreads over both ReplicaSets in proportion', async () => {
    // The example of the Kubernetes documentation: 10 replicas, surge 3, unavailable 2, then scaled to 15.
    const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 3, maxUnavailable: 2 } }
    await createWeb({ replicas: 10, spec: { strategy } })
    cluster.kubelet.autoReady = false
    const containers = [{ name: 'nginx', image: 'nginx:missing' }]
    cluster.api.patch('deployments', 'default', 'web', { spec: { template: { spec: { containers } } } })
    await cluster.settled()
    const sizes = () =>
      Object.fromEntries(active().map(({ spec }) => [spec.template?.spec?.containers[0]?.image, spec.replicas]))
    expect(sizes()).toEqual({ nginx: 8, 'nginx:missing': 5 })
    cluster.kubelet.autoReady = true
    scale(15)
    await cluster.until('it is rescaled', () => sizes().nginx === 11)
    expect(sizes()).toEqual({ nginx: 11, 'nginx:missing': 7 })
  })
})

test('a hash that another ReplicaSet has is counted as a collision and avoided', async () => {
  await createWeb({ replicas: 1 })
  const [own] = cluster.replicaSets('web')
  const name = own?.metadata.name ?? ''
  cluster.api.delete('deployments', 'default', 'web')
  await cluster.settled()
  cluster.api.create('replicasets', 'default', {
    metadata: { name },
    spec: {
      replicas: 0,
      selector: { matchLabels: { app: 'other' } },
      template: { metadata: { labels: { app: 'other' } }, spec: { containers: [{ name: 'a', image: 'b' }] } },
    },
  })
  await createWeb({ replicas: 1 })
  await cluster.until('the Pod runs', () => cluster.deployment('web').status?.availableReplicas === 1)
  expect(cluster.deployment('web').status?.collisionCount).toBe(1)
  expect(cluster.replicaSets('web').map(({ metadata }) => metadata.name)).not.toContain(name)
})
