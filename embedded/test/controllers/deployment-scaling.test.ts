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

  test('during a rollout, which continues with the new size', async () => {
    await createWeb({ replicas: 4 })
    cluster.kubelet.autoReady = false
    const containers = [{ name: 'nginx', image: 'nginx:2' }]
    cluster.api.patch('deployments', 'default', 'web', { spec: { template: { spec: { containers } } } })
    await cluster.settled()
    scale(6)
    cluster.kubelet.autoReady = true
    for (const pod of cluster.pods()) cluster.kubelet.setReady(pod.metadata.name, true)
    await cluster.settled()
    expect(active()).toHaveLength(1)
    expect(cluster.pods().map(({ spec }) => spec.containers[0]?.image)).toEqual(Array(6).fill('nginx:2'))
  })
})
