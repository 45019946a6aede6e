// After any changes in any order the cluster settles in the state that the specifications describe.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Endpoints } from '../../controllers/resources.ts'
import { startTestCluster, type TestCluster } from './cluster.ts'
import { daemonSet, deployment, service } from './manifests.ts'

type Step =
  | { do: 'scale'; replicas: number }
  | { do: 'image'; tag: number }
  | { do: 'label'; pod: number; app: string }
  | { do: 'delete'; pod: number }
  | { do: 'fail'; pod: number }
  | { do: 'unready'; pod: number }
  | { do: 'select'; app: string }
  | { do: 'cordon'; node: string; on: boolean }
  | { do: 'restart' }
  | { do: 'recreate' }
  | { do: 'turn' }

const index = fc.nat({ max: 20 })
const app = fc.constantFrom('web', 'other')
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('scale' as const), replicas: fc.nat({ max: 7 }) }),
  fc.record({ do: fc.constant('image' as const), tag: fc.nat({ max: 3 }) }),
  fc.record({ do: fc.constant('label' as const), pod: index, app }),
  fc.record({ do: fc.constant('delete' as const), pod: index }),
  fc.record({ do: fc.constant('fail' as const), pod: index }),
  fc.record({ do: fc.constant('unready' as const), pod: index }),
  fc.record({ do: fc.constant('select' as const), app }),
  fc.record({
    do: fc.constant('cordon' as const),
    node: fc.constantFrom('k8s-guide-worker', 'k8s-guide-worker2'),
    on: fc.boolean(),
  }),
  fc.record({ do: fc.constant('restart' as const) }),
  fc.record({ do: fc.constant('recreate' as const) }),
  fc.record({ do: fc.constant('turn' as const) }),
)

let restarts = 0

async function take(cluster: TestCluster, action: Step): Promise<void> {
  const { api } = cluster
  const pods = cluster.pods().filter(({ metadata }) => !metadata.deletionTimestamp)
  const pick = 'pod' in action ? pods[action.pod % pods.length] : undefined
  const name = pick?.metadata.name
  switch (action.do) {
    case 'scale':
      api.patch('deployments', 'default', 'web', { spec: { replicas: action.replicas } })
      break
    case 'image': {
      const containers = [{ name: 'nginx', image: `nginx:${action.tag}` }]
      api.patch('deployments', 'default', 'web', { spec: { template: { spec: { containers } } } })
      break
    }
    case 'label':
      if (name) api.patch('pods', 'default', name, { metadata: { labels: { app: action.app } } })
      break
    case 'delete':
      if (name) api.delete('pods', 'default', name)
      break
    case 'fail':
      if (name && pick?.spec.nodeName) cluster.kubelet.setPhase(name, 'Failed')
      break
    case 'unready':
      if (name && pick?.spec.nodeName) cluster.kubelet.setReady(name, false)
      break
    case 'select':
      api.patch('services', 'default', 'web', { spec: { selector: { app: action.app } } })
      break
    case 'cordon':
      api.patch('nodes', undefined, action.node, { spec: { unschedulable: action.on } })
      break
    case 'restart': {
      const annotations = { restarted: String(restarts++) }
      api.patch('daemonsets', 'default', 'agent', { spec: { template: { metadata: { annotations } } } })
      break
    }
    case 'recreate':
      api.delete('deployments', 'default', 'web')
      api.create('deployments', 'default', deployment('web'))
      break
    case 'turn':
      for (let turns = 0; turns < 3; turns++) await new Promise((resolve) => setImmediate(resolve))
      break
  }
}

function repair(cluster: TestCluster) {
  for (const { metadata, spec, status } of cluster.pods()) {
    const alive = spec.nodeName && status?.phase === 'Running' && !metadata.deletionTimestamp
    if (alive) cluster.kubelet.setReady(metadata.name, true)
  }
}

function expectWanted(cluster: TestCluster) {
  const { spec, status, metadata } = cluster.deployment('web')
  const replicas = spec.replicas ?? 1
  const image = spec.template.spec?.containers[0]?.image
  const live = cluster.pods().filter((pod) => pod.status?.phase === 'Running')
  const sets = cluster.replicaSets('web')
  const owned = live.filter((pod) => sets.some((set) => set.metadata.uid === pod.metadata.ownerReferences?.[0]?.uid))
  expect(owned.map((pod) => pod.spec.containers[0]?.image)).toEqual(Array(replicas).fill(image))
  expect(status?.availableReplicas ?? 0).toBe(replicas)
  expect(status?.observedGeneration).toBe(metadata.generation)
  expect(sets.reduce((sum, set) => sum + (set.spec.replicas ?? 0), 0)).toBe(replicas)

  const selector = cluster.service('web').spec.selector ?? {}
  const selected = live.filter((pod) => pod.metadata.labels?.app === selector.app).map((pod) => pod.status?.podIP)
  const endpoints = cluster.slices('web').flatMap((slice) => slice.endpoints ?? [])
  expect(endpoints.map(({ addresses }) => addresses[0]).sort()).toEqual([...selected].sort())
  for (const { conditions } of endpoints) expect(conditions).toEqual({ ready: true, serving: true, terminating: false })
  const legacy = cluster.api.get<Endpoints>('endpoints', 'default', 'web')?.subsets ?? []
  expect(
    legacy
      .flatMap((subset) => subset.addresses ?? [])
      .map(({ ip }) => ip)
      .sort(),
  ).toEqual([...selected].sort())

  const agents = live.filter((pod) => pod.metadata.ownerReferences?.[0]?.kind === 'DaemonSet')
  expect(new Set(agents.map((pod) => pod.spec.nodeName)).size).toBe(3)
  expect(agents).toHaveLength(3)
  expect(new Set(agents.map((pod) => pod.metadata.labels?.['controller-revision-hash'])).size).toBe(1)
}

test('any sequence of changes converges, and then nothing more is written', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const cluster = startTestCluster()
      try {
        cluster.api.create('deployments', 'default', deployment('web'))
        cluster.api.create('services', 'default', service('web'))
        cluster.api.create('daemonsets', 'default', daemonSet('agent'))
        for (const action of steps) await take(cluster, action)
        for (const node of ['k8s-guide-worker', 'k8s-guide-worker2']) {
          cluster.api.patch('nodes', undefined, node, { spec: { unschedulable: null } })
        }
        await cluster.settled()
        repair(cluster)
        await cluster.settled()
        repair(cluster)
        await cluster.settled()
        expectWanted(cluster)
        expect(cluster.faults).toEqual([])
      } finally {
        cluster.stop()
      }
    }),
    { numRuns: 60 },
  )
})
