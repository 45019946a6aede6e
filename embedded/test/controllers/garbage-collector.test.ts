import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Draft, OwnerReference } from '../../apiserver/api.ts'
import { startTestCluster, type TestCluster } from './cluster.ts'
import { deployment } from './manifests.ts'

let cluster: TestCluster
beforeEach(async () => {
  cluster = startTestCluster()
  cluster.api.create('deployments', 'default', deployment('web'))
  await cluster.settled()
})
afterEach(() => cluster.stop())

const present = (resource: string) => cluster.api.list(resource, { namespace: 'default' }).length
const gone = () => present('deployments') + present('replicasets') + present('pods') === 0

test('Background deletes the owner at once and then what it owned', async () => {
  cluster.kubelet.autoFinish = false
  cluster.api.delete('deployments', 'default', 'web', { propagationPolicy: 'Background' })
  expect(present('deployments')).toBe(0)
  await cluster.settled()
  expect(present('replicasets')).toBe(0)
  expect(cluster.pods().map(({ metadata }) => metadata.deletionTimestamp !== undefined)).toEqual([true, true])
  for (const { metadata } of cluster.pods()) cluster.kubelet.finish(metadata.name)
  await cluster.settled()
  expect(gone()).toBe(true)
})

test('Foreground keeps each owner until what it owned is gone', async () => {
  cluster.kubelet.autoFinish = false
  cluster.api.delete('deployments', 'default', 'web', { propagationPolicy: 'Foreground' })
  await cluster.settled()
  expect(cluster.deployment('web').metadata.finalizers).toEqual(['foregroundDeletion'])
  expect(cluster.replicaSets('web')[0]?.metadata.finalizers).toEqual(['foregroundDeletion'])
  const [first, second] = cluster.pods().map(({ metadata }) => metadata.name)
  cluster.kubelet.finish(first ?? '')
  await cluster.settled()
  expect([present('deployments'), present('replicasets'), present('pods')]).toEqual([1, 1, 1])
  cluster.kubelet.finish(second ?? '')
  await cluster.settled()
  expect(gone()).toBe(true)
})

test('Orphan leaves what it owned without an owner; a new Deployment adopts it', async () => {
  const uids = cluster.pods().map(({ metadata }) => metadata.uid)
  cluster.api.delete('deployments', 'default', 'web', { propagationPolicy: 'Orphan' })
  await cluster.settled()
  expect(present('deployments')).toBe(0)
  const [set] = cluster.api.list('replicasets', { namespace: 'default' })
  expect(set?.metadata.ownerReferences ?? []).toEqual([])
  expect(cluster.pods().map(({ metadata }) => metadata.uid)).toEqual(uids)
  cluster.api.create('deployments', 'default', deployment('web'))
  await cluster.settled()
  expect(cluster.replicaSets('web').map(({ metadata }) => metadata.uid)).toEqual([set?.metadata.uid])
  expect(cluster.pods().map(({ metadata }) => metadata.uid)).toEqual(uids)
})

describe('an object', () => {
  const configMap = (name: string, ownerReferences?: OwnerReference[]): Draft => ({
    metadata: { name, ...(ownerReferences && { ownerReferences }) },
  })
  const reference = (name: string, uid: string): OwnerReference => ({ apiVersion: 'v1', kind: 'ConfigMap', name, uid })
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

  test('with an owner of an unknown kind is left alone', async () => {
    create(configMap('child', [{ apiVersion: 'example.org/v1', kind: 'Thing', name: 'x', uid: 'y' }]))
    await cluster.settled()
    expect(find('child')).toBeDefined()
  })
})
