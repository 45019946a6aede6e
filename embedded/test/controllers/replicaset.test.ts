import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { deletionOrder } from '../../controllers/pod-control.ts'
import type { Pod, ReplicaSet } from '../../controllers/resources.ts'
import { startTestCluster, type TestCluster } from './cluster.ts'
import { pod } from './manifests.ts'

describe('with a cluster', () => {
  let cluster: TestCluster
  beforeEach(() => {
    cluster = startTestCluster()
  })
  afterEach(() => cluster.stop())

  const stored = () => cluster.api.get<ReplicaSet>('replicasets', 'default', 'web')
  const owned = () =>
    cluster.pods().filter(({ metadata }) => metadata.ownerReferences?.[0]?.uid === stored()?.metadata.uid)

  async function create(replicas: number) {
    const template = {
      metadata: { labels: { app: 'web', tier: 'front' } },
      spec: { containers: [{ name: 'a', image: 'nginx' }] },
    }
    cluster.api.create('replicasets', 'default', {
      metadata: { name: 'web' },
      spec: { replicas, selector: { matchLabels: { app: 'web' } }, template },
    })
    await cluster.settled()
  }

  test('adopts matching Pods without an owner and makes only the missing ones', async () => {
    cluster.api.create('pods', 'default', pod('mine', {}, { app: 'web' }))
    await create(3)
    expect(owned()).toHaveLength(3)
    expect(owned().map(({ metadata }) => metadata.name)).toContain('mine')
    expect(stored()?.status).toMatchObject({ replicas: 3, readyReplicas: 3, fullyLabeledReplicas: 2 })
  })

  test('releases a Pod whose labels no longer match and replaces it', async () => {
    await create(2)
    const [released] = owned().map(({ metadata }) => metadata.name)
    cluster.api.patch('pods', 'default', released ?? '', { metadata: { labels: { app: 'debug' } } })
    await cluster.settled()
    expect(owned()).toHaveLength(2)
    const free = cluster.api.get('pods', 'default', released ?? '')
    expect(free?.metadata.ownerReferences ?? []).toEqual([])
    // Back again it is one too many.
    cluster.api.patch('pods', 'default', released ?? '', { metadata: { labels: { app: 'web' } } })
    await cluster.settled()
    expect(owned()).toHaveLength(2)
    expect(cluster.pods()).toHaveLength(2)
  })

  test('replaces Pods that failed or were deleted, and keeps the failed one as its own', async () => {
    await create(2)
    const [failed, deleted] = owned().map(({ metadata }) => metadata.name)
    cluster.kubelet.setPhase(failed ?? '', 'Failed')
    cluster.api.delete('pods', 'default', deleted ?? '')
    await cluster.settled()
    expect(owned().filter(({ status }) => status?.phase === 'Running')).toHaveLength(2)
    expect(owned().map(({ metadata }) => metadata.name)).toContain(failed)
  })

  test('reports when it cannot make Pods, and tries again', async () => {
    const template = { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'a', image: 'nginx' }] } }
    const refuse = cluster.api.create.bind(cluster.api)
    let refusing = true
    const { StatusError } = await import('../../apiserver/status-error.ts')
    cluster.api.create = ((resource: string, namespace: string | undefined, object: Record<string, unknown>) => {
      if (resource === 'pods' && refusing) throw new StatusError(403, 'Forbidden', 'no more Pods today')
      return refuse(resource, namespace, object)
    }) as typeof cluster.api.create
    cluster.api.create('replicasets', 'default', {
      metadata: { name: 'web' },
      spec: { replicas: 1, selector: { matchLabels: { app: 'web' } }, template },
    })
    await cluster.until('it is told', () => Boolean(stored()?.status?.conditions?.length))
    expect(stored()?.status?.conditions).toMatchObject([
      { type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate', message: 'no more Pods today' },
    ])
    expect(cluster.events('FailedCreate')[0]?.message).toBe('Error creating: no more Pods today')
    refusing = false
    await cluster.until('the Pod is there', () => owned().length === 1)
    await cluster.settled()
    expect(stored()?.status?.conditions ?? []).toEqual([])
  })
})

describe('scaling down', () => {
  const now = Date.parse('2026-01-01T12:00:00Z')
  interface Traits {
    node?: string
    phase?: string
    ready?: boolean
    readyMinutes?: number
    ageMinutes?: number
    restarts?: number
    cost?: number
  }
  const ago = (minutes: number) => new Date(now - minutes * 60_000).toISOString()
  function candidate(
    name: string,
    {
      node = 'n',
      phase = 'Running',
      ready = true,
      readyMinutes = 60,
      ageMinutes = 60,
      restarts = 0,
      cost,
    }: Traits = {},
  ): Pod {
    return {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name,
        uid: name,
        resourceVersion: '1',
        creationTimestamp: ago(ageMinutes),
        ...(cost !== undefined && { annotations: { 'controller.kubernetes.io/pod-deletion-cost': String(cost) } }),
      },
      spec: { containers: [], ...(node && { nodeName: node }) },
      status: {
        phase,
        conditions: [{ type: 'Ready', status: ready ? 'True' : 'False', lastTransitionTime: ago(readyMinutes) }],
        containerStatuses: [{ name: 'a', image: '', imageID: '', ready, restartCount: restarts }],
      },
    }
  }

  // Each row: what goes before an ordinary Pod, by the documented order.
  test.each<[string, Traits]>([
    ['unassigned', { node: '' }],
    ['Pending', { phase: 'Pending' }],
    ['not ready', { ready: false }],
    ['of lower deletion cost', { cost: -1 }],
    ['ready for a shorter time', { readyMinutes: 1 }],
    ['restarted more often', { restarts: 3 }],
    ['newer', { ageMinutes: 1 }],
  ])('a Pod that is %s goes first', (_what, traits) => {
    for (const pods of [
      [candidate('b'), candidate('z', traits)],
      [candidate('z', traits), candidate('b')],
    ]) {
      expect(deletionOrder(pods, [], now).map(({ metadata }) => metadata.name)).toEqual(['z', 'b'])
    }
  })

  test('an earlier criterion outweighs a later one; crowded nodes are relieved', () => {
    const pods = [candidate('new', { ageMinutes: 1, restarts: 9 }), candidate('unready', { ready: false, cost: 5 })]
    expect(deletionOrder(pods, [], now).map(({ metadata }) => metadata.name)).toEqual(['unready', 'new'])
    const related = [
      candidate('x', { node: 'full' }),
      candidate('y', { node: 'full' }),
      candidate('a', { node: 'free' }),
    ]
    const order = deletionOrder(
      [candidate('a', { node: 'free', ageMinutes: 1 }), candidate('x', { node: 'full' })],
      related,
      now,
    )
    expect(order.map(({ metadata }) => metadata.name)).toEqual(['x', 'a'])
  })
})
