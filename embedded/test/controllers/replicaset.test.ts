import { describe, expect, test } from 'vitest'
import { deletionOrder } from '../../controllers/replicaset.ts'
import type { Pod, ReplicaSet } from '../../controllers/resources.ts'
import { cluster, useTestCluster } from './cluster.ts'
import { pod } from './manifests.ts'

describe('with a cluster', () => {
  useTestCluster()

  const stored = () => cluster.api.get<ReplicaSet>('replicasets', 'default', 'web')
  const owned = () =>
    cluster
      .pods()
      .filter(({ metadata }) => metadata.ownerReferences?.[0]?.uid === stored()?.metadata.uid)

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
    expect(stored()?.status).toMatchObject({ replicas: 3, readyReplicas: 3 })
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
})

describe('scaling down', () => {
  interface Traits {
    node?: string
    phase?: string
    ready?: boolean
    created?: string
  }
  function candidate(name: string, traits: Traits = {}): Pod {
    const { node = 'n', phase = 'Running', ready = true, created = '2026-01-01T11:00:00Z' } = traits
    return {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, uid: name, resourceVersion: '1', creationTimestamp: created },
      spec: { containers: [], ...(node && { nodeName: node }) },
      status: { phase, conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] },
    }
  }
  const order = (...pods: Pod[]) => deletionOrder(pods).map(({ metadata }) => metadata.name)

  // Each row: what goes before an ordinary Pod, by the documented order.
  test.each<[string, Traits]>([
    ['unassigned', { node: '' }],
    ['Pending', { phase: 'Pending' }],
    ['not ready', { ready: false }],
    ['newer', { created: '2026-01-01T11:59:00Z' }],
  ])('a Pod that is %s is deleted first', (_what, traits) => {
    expect(order(candidate('b'), candidate('z', traits))).toEqual(['z', 'b'])
    expect(order(candidate('z', traits), candidate('b'))).toEqual(['z', 'b'])
  })

  test('an earlier criterion outweighs a later one, and a node with more Pods gives first', () => {
    const newer = { created: '2026-01-01T11:59:00Z' }
    expect(order(candidate('new', newer), candidate('unready', { ready: false }))).toEqual([
      'unready',
      'new',
    ])
    const pods = [candidate('free', { node: 'free', ...newer }), candidate('a'), candidate('b')]
    expect(order(...pods)).toEqual(['b', 'a', 'free'])
  })
})
