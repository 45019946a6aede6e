// After any changes in any order the cluster settles in the state that the specifications describe.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Endpoints, Pod } from '../../controllers/resources.ts'
import { startTestCluster, type TestCluster, workers } from './cluster.ts'
import { daemonSet, deployment, service } from './manifests.ts'

interface Step {
  /** For the report of a failure. */
  text: string
  take(cluster: TestCluster): unknown
}

const doing = <T>(
  text: string,
  values: fc.Arbitrary<T>,
  take: (cluster: TestCluster, value: T) => unknown,
) =>
  values.map(
    (value): Step => ({ text: `${text} ${value}`, take: (cluster) => take(cluster, value) }),
  )

/** Does something to a Pod that is not being deleted, if there is one. */
const toPod = (text: string, take: (cluster: TestCluster, pod: Pod) => unknown) =>
  doing(text, fc.nat({ max: 20 }), (cluster, index) => {
    const pods = cluster.pods().filter(({ metadata }) => !metadata.deletionTimestamp)
    const pod = pods[index % pods.length]
    if (pod) take(cluster, pod)
  })

const app = fc.constantFrom('web', 'other')
const nodes = fc.constantFrom(...workers)
let restarts = 0

const steps = fc.oneof(
  doing('scale to', fc.nat({ max: 7 }), ({ api }, replicas) =>
    api.patch('deployments', 'default', 'web', { spec: { replicas } }),
  ),
  doing('set image', fc.nat({ max: 3 }), ({ api }, tag) => {
    const containers = [{ name: 'nginx', image: `nginx:${tag}` }]
    api.patch('deployments', 'default', 'web', { spec: { template: { spec: { containers } } } })
  }),
  app.chain((value) =>
    toPod(`label ${value}`, ({ api }, { metadata }) =>
      api.patch('pods', 'default', metadata.name, { metadata: { labels: { app: value } } }),
    ),
  ),
  toPod('delete', ({ api }, { metadata }) => api.delete('pods', 'default', metadata.name)),
  toPod(
    'fail',
    ({ kubelet }, { metadata, spec }) => spec.nodeName && kubelet.setPhase(metadata.name, 'Failed'),
  ),
  toPod(
    'unready',
    ({ kubelet }, { metadata, spec }) => spec.nodeName && kubelet.setReady(metadata.name, false),
  ),
  doing('select', app, ({ api }, value) =>
    api.patch('services', 'default', 'web', { spec: { selector: { app: value } } }),
  ),
  doing('cordon', nodes, ({ api }, node) =>
    api.patch('nodes', undefined, node, { spec: { unschedulable: true } }),
  ),
  doing('uncordon', nodes, ({ api }, node) =>
    api.patch('nodes', undefined, node, { spec: { unschedulable: false } }),
  ),
  doing('restart the DaemonSet', fc.constant(''), ({ api }) => {
    const annotations = { restarted: String(restarts++) }
    api.patch('daemonsets', 'default', 'agent', {
      spec: { template: { metadata: { annotations } } },
    })
  }),
  doing('recreate the Deployment', fc.constant(''), ({ api }) => {
    api.delete('deployments', 'default', 'web')
    api.create('deployments', 'default', deployment('web'))
  }),
  doing('wait for turns:', fc.constant(3), async (_cluster, turns) => {
    for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve))
  }),
)

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
  const owned = live.filter((pod) =>
    sets.some((set) => set.metadata.uid === pod.metadata.ownerReferences?.[0]?.uid),
  )
  expect(owned.map((pod) => pod.spec.containers[0]?.image)).toEqual(Array(replicas).fill(image))
  expect(status?.availableReplicas ?? 0).toBe(replicas)
  expect(status?.observedGeneration).toBe(metadata.generation)
  expect(sets.reduce((sum, set) => sum + (set.spec.replicas ?? 0), 0)).toBe(replicas)

  const selector = cluster.service('web').spec.selector ?? {}
  const selected = live
    .filter((pod) => pod.metadata.labels?.app === selector.app)
    .map((pod) => pod.status?.podIP)
  const endpoints = cluster.slices('web').flatMap((slice) => slice.endpoints ?? [])
  expect(endpoints.map(({ addresses }) => addresses[0]).sort()).toEqual([...selected].sort())
  for (const { conditions } of endpoints)
    expect(conditions).toEqual({ ready: true, serving: true, terminating: false })
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
  expect(new Set(agents.map((pod) => pod.metadata.labels?.['controller-revision-hash'])).size).toBe(
    1,
  )
}

test('any sequence of changes converges, and then nothing more is written', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { maxLength: 25 }), async (chosen) => {
      const cluster = startTestCluster()
      try {
        cluster.api.create('deployments', 'default', deployment('web'))
        cluster.api.create('services', 'default', service('web'))
        cluster.api.create('daemonsets', 'default', daemonSet('agent'))
        for (const step of chosen) await step.take(cluster)
        for (const node of workers)
          cluster.api.patch('nodes', undefined, node, { spec: { unschedulable: null } })
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
