import { describe, expect, test } from 'vitest'
import type { Pod } from '../../controllers/resources.ts'
import { cluster, createNode, useTestCluster, workers } from './cluster.ts'
import { deployment, pod } from './manifests.ts'

useTestCluster()

const [worker = '', worker2 = ''] = workers
const hostname = 'kubernetes.io/hostname'
const find = (name: string) => cluster.api.get<Pod>('pods', 'default', name)
const nodeOf = (name: string) => find(name)?.spec.nodeName
const scheduled = (name: string) =>
  find(name)?.status?.conditions?.find(({ type }) => type === 'PodScheduled')
const counts = () =>
  workers.map((node) => cluster.pods().filter(({ spec }) => spec.nodeName === node).length)

async function create(...drafts: ReturnType<typeof pod>[]) {
  for (const draft of drafts) {
    cluster.api.create('pods', 'default', draft)
    await cluster.settled()
  }
}

const antiAffinity = (app: string) => ({
  podAntiAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: [
      { topologyKey: hostname, labelSelector: { matchLabels: { app } } },
    ],
  },
})

describe('spreading', () => {
  test('puts two replicas on two workers whatever else runs there', async () => {
    for (let index = 0; index < 5; index++)
      await create(pod(`other-${index}`, { nodeName: worker2 }))
    for (let round = 0; round < 5; round++) {
      cluster.api.create('deployments', 'default', deployment(`web-${round}`))
      await cluster.settled()
      expect(
        cluster
          .pods(`app=web-${round}`)
          .map(({ spec }) => spec.nodeName)
          .sort(),
      ).toEqual(workers)
    }
  })

  test('lasts through a rolling update and a restart', async () => {
    cluster.api.create('deployments', 'default', deployment('web'))
    await cluster.settled()
    for (const image of ['nginx:2', 'nginx:3', 'nginx:4']) {
      const containers = [{ name: 'nginx', image }]
      cluster.api.patch('deployments', 'default', 'web', {
        spec: { template: { spec: { containers } } },
      })
      await cluster.settled()
      expect(
        cluster
          .pods()
          .map(({ spec }) => spec.nodeName)
          .sort(),
      ).toEqual(workers)
    }
  })

  test('does not count Pods that are being deleted', async () => {
    cluster.api.create('deployments', 'default', deployment('web'))
    await cluster.settled()
    cluster.kubelet.autoFinish = false
    const going = cluster.pods().find(({ spec }) => spec.nodeName === worker2)?.metadata.name ?? ''
    cluster.api.delete('pods', 'default', going)
    await cluster.settled()
    const staying = cluster.pods().filter(({ metadata }) => metadata.name !== going)
    expect(staying.map(({ spec }) => spec.nodeName).sort()).toEqual(workers)
  })

  test('of Pods without an owner prefers the node with fewer Pods', async () => {
    await create(pod('a', { nodeName: worker }), pod('b', { nodeName: worker }), pod('c'))
    expect(nodeOf('c')).toBe(worker2)
  })
})

test('a bound Pod has the condition and the Event of kube-scheduler', async () => {
  await create(pod('web'))
  expect(scheduled('web')).toMatchObject({ status: 'True' })
  expect(cluster.events('Scheduled')).toMatchObject([
    {
      type: 'Normal',
      message: `Successfully assigned default/web to ${nodeOf('web')}`,
      source: { component: 'default-scheduler' },
      involvedObject: {
        kind: 'Pod',
        name: 'web',
        namespace: 'default',
        uid: find('web')?.metadata.uid,
      },
      count: 1,
    },
  ])
})

describe('a Pod that fits nowhere', () => {
  test.each([
    [
      { nodeSelector: { disk: 'ssd' } },
      "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node affinity/selector.",
    ],
    [
      { affinity: antiAffinity('blocker') },
      "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match pod anti-affinity rules.",
    ],
  ])('reports why: %j', async (spec, message) => {
    const labels = { app: 'blocker' }
    await create(
      pod('one', { nodeName: worker }, labels),
      pod('two', { nodeName: worker2 }, labels),
    )
    await create(pod('web', spec))
    expect(nodeOf('web')).toBeUndefined()
    expect(scheduled('web')).toMatchObject({ status: 'False', reason: 'Unschedulable', message })
    expect(cluster.events('FailedScheduling')).toMatchObject([{ type: 'Warning', message }])
  })

  test('is placed as soon as a node changes', async () => {
    await create(pod('web', { nodeSelector: { disk: 'ssd' } }))
    cluster.api.patch('nodes', undefined, worker2, { metadata: { labels: { disk: 'ssd' } } })
    await cluster.settled()
    expect(nodeOf('web')).toBe(worker2)
  })

  test('is placed as soon as a Pod in its way is gone', async () => {
    await create(
      ...workers.map((nodeName) => pod(`on-${nodeName}`, { nodeName }, { app: 'blocker' })),
    )
    await create(pod('web', { affinity: antiAffinity('blocker') }))
    expect(nodeOf('web')).toBeUndefined()
    cluster.api.delete('pods', 'default', `on-${worker2}`)
    await cluster.settled()
    expect(nodeOf('web')).toBe(worker2)
  })

  test('is placed as soon as there is a node', async () => {
    for (const node of workers)
      cluster.api.patch('nodes', undefined, node, { spec: { unschedulable: true } })
    await create(pod('web'))
    expect(scheduled('web')?.message).toMatch(
      /^0\/3 nodes are available: 1 node\(s\) had untolerated taint\(s\), 2 node\(s\) were unschedulable\./,
    )
    createNode(cluster.api, 'late')
    await cluster.settled()
    expect(nodeOf('web')).toBe('late')
  })
})

describe('nodes', () => {
  test('tainted ones take only Pods that tolerate it', async () => {
    const toleration = {
      key: 'node-role.kubernetes.io/control-plane',
      operator: 'Exists',
      effect: 'NoSchedule',
    }
    for (const node of workers)
      cluster.api.patch('nodes', undefined, node, { spec: { unschedulable: true } })
    await create(pod('web', { tolerations: [toleration] }))
    expect(nodeOf('web')).toBe('k8s-guide-control-plane')
  })

  test('required node affinity decides', async () => {
    const matchExpressions = [{ key: hostname, operator: 'NotIn', values: [worker] }]
    const required = {
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions }] },
    }
    await create(pod('a', { affinity: { nodeAffinity: required } }))
    expect(nodeOf('a')).toBe(worker2)
  })
})

describe('anti-affinity', () => {
  test('keeps replicas apart and the third waiting', async () => {
    cluster.api.create(
      'deployments',
      'default',
      deployment('web', { replicas: 3, pod: { affinity: antiAffinity('web') } }),
    )
    await cluster.settled()
    expect(counts()).toEqual([1, 1])
    expect(cluster.pods().filter(({ spec }) => !spec.nodeName)).toHaveLength(1)
  })

  test('that is preferred outweighs fewer Pods', async () => {
    const podAffinityTerm = {
      topologyKey: hostname,
      labelSelector: { matchLabels: { app: 'noisy' } },
    }
    const affinity = {
      podAntiAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, podAffinityTerm }],
      },
    }
    await create(pod('noisy', { nodeName: worker }))
    for (let index = 0; index < 3; index++)
      await create(pod(`other-${index}`, { nodeName: worker2 }))
    await create(pod('web', { affinity }))
    expect(nodeOf('web')).toBe(worker2)
  })
})

test('topology spread constraints hold the skew, or only weigh', async () => {
  const constraint = (whenUnsatisfiable: string) => ({
    maxSkew: 1,
    topologyKey: hostname,
    whenUnsatisfiable,
    labelSelector: { matchLabels: { app: 'web' } },
  })
  const labels = { app: 'web' }
  await create(pod('a', { nodeName: worker }, labels))
  cluster.api.patch('nodes', undefined, worker2, { spec: { unschedulable: true } })
  await create(pod('hard', { topologySpreadConstraints: [constraint('DoNotSchedule')] }, labels))
  expect(scheduled('hard')?.message).toContain(
    "1 node(s) didn't match pod topology spread constraints",
  )
  await create(pod('soft', { topologySpreadConstraints: [constraint('ScheduleAnyway')] }, labels))
  expect(nodeOf('soft')).toBe(worker)
  cluster.api.patch('nodes', undefined, worker2, { spec: { unschedulable: null } })
  await cluster.settled()
  expect(nodeOf('hard')).toBe(worker2)
})
