import type { V1OwnerReference } from '@kubernetes/client-node'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import type { Draft } from '../../apiserver/api.ts'
import { cluster, useTestCluster } from './cluster.ts'
import { deployment, service } from './manifests.ts'

useTestCluster()
beforeEach(async () => {
  cluster.api.create('deployments', 'default', deployment('web'))
  await cluster.settled()
})

const present = (resource: string) => cluster.api.list(resource, { namespace: 'default' }).length
const gone = () => present('deployments') + present('replicasets') + present('pods') === 0

test('a deletion removes the owner at once and then what it owned', async () => {
  cluster.kubelet.autoFinish = false
  cluster.api.delete('deployments', 'default', 'web')
  expect(present('deployments')).toBe(0)
  await cluster.settled()
  expect(present('replicasets')).toBe(0)
  expect(cluster.pods().map(({ metadata }) => metadata.deletionTimestamp !== undefined)).toEqual([
    true,
    true,
  ])
  for (const { metadata } of cluster.pods()) cluster.kubelet.finish(metadata.name)
  await cluster.settled()
  expect(gone()).toBe(true)
})

describe('an object', () => {
  const configMap = (name: string, ownerReferences?: V1OwnerReference[]): Draft => ({
    metadata: { name, ...(ownerReferences && { ownerReferences }) },
  })
  const reference = (name: string, uid: string): V1OwnerReference => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    name,
    uid,
  })
  const create = (draft: Draft) => cluster.api.create('configmaps', 'default', draft)
  const find = (name: string) => cluster.api.get('configmaps', 'default', name)

  test('whose owner never existed, or was replaced by another of its name, is deleted', async () => {
    const owner = create(configMap('owner'))
    create(configMap('orphan', [reference('nobody', 'uid')]))
    create(configMap('stranger', [reference('owner', 'another uid')]))
    create(configMap('child', [reference('owner', owner.metadata.uid)]))
    await cluster.settled()
    expect([find('orphan'), find('stranger')]).toEqual([undefined, undefined])
    expect(find('child')).toBeDefined()
  })

  test('with several owners stays until the last one is gone', async () => {
    const [a, b] = [create(configMap('a')), create(configMap('b'))]
    create(configMap('child', [reference('a', a.metadata.uid), reference('b', b.metadata.uid)]))
    cluster.api.delete('configmaps', 'default', 'a')
    await cluster.settled()
    expect(find('child')?.metadata.ownerReferences).toEqual([reference('b', b.metadata.uid)])
    cluster.api.delete('configmaps', 'default', 'b')
    await cluster.settled()
    expect(find('child')).toBeUndefined()
  })

  test('that owns nothing is deleted without a search of all others: 3,000 Services took 18 s', async () => {
    const owner = create(configMap('owner'))
    create(configMap('child', [reference('owner', owner.metadata.uid)]))
    create(configMap('other'))
    await cluster.settled()
    const searches = vi.spyOn(cluster.api.store, 'all')
    cluster.api.delete('configmaps', 'default', 'other')
    await cluster.settled()
    expect(searches).not.toHaveBeenCalled()
    cluster.api.delete('configmaps', 'default', 'owner')
    await cluster.settled()
    expect(find('child')).toBeUndefined()
  })

  test('with an owner of an unknown kind is left alone', async () => {
    create(
      configMap('child', [{ apiVersion: 'example.org/v1', kind: 'Thing', name: 'x', uid: 'y' }]),
    )
    await cluster.settled()
    expect(find('child')).toBeDefined()
  })
})

test('a deleted namespace takes everything with it, after its last Pod', async () => {
  cluster.api.create('namespaces', undefined, { metadata: { name: 'shop' } })
  cluster.api.create('deployments', 'shop', deployment('web'))
  cluster.api.create('services', 'shop', service('web', { type: 'LoadBalancer' }))
  await cluster.settled()
  const pods = () => cluster.api.list('pods', { namespace: 'shop' })
  expect(pods()).toHaveLength(2)
  cluster.kubelet.autoFinish = false
  cluster.api.delete('namespaces', undefined, 'shop')
  await cluster.settled()
  expect(cluster.api.get('namespaces', undefined, 'shop')).toMatchObject({
    status: { phase: 'Terminating' },
  })
  for (const resource of [
    'deployments',
    'replicasets',
    'services',
    'endpointslices',
    'endpoints',
    'configmaps',
  ]) {
    expect(cluster.api.list(resource, { namespace: 'shop' })).toEqual([])
  }
  expect(pods()).toHaveLength(2)
  for (const { metadata } of pods())
    cluster.api.delete('pods', 'shop', metadata.name, { gracePeriodSeconds: 0 })
  await cluster.settled()
  expect(cluster.api.get('namespaces', undefined, 'shop')).toBeUndefined()
})
