import { afterEach, beforeEach, expect, test } from 'vitest'
import type { ConfigMap, Namespace } from '../../controllers/resources.ts'
import { startTestCluster, type TestCluster } from './cluster.ts'
import { deployment, service } from './manifests.ts'

let cluster: TestCluster
beforeEach(async () => {
  cluster = startTestCluster()
  cluster.api.create('namespaces', undefined, { metadata: { name: 'shop' } })
  await cluster.settled()
})
afterEach(() => cluster.stop())

const certificate = () => cluster.api.get<ConfigMap>('configmaps', 'shop', 'kube-root-ca.crt')

test('a namespace has its ServiceAccount and the CA, which is restored', async () => {
  expect(cluster.api.get('serviceaccounts', 'shop', 'default')).toBeDefined()
  expect(certificate()?.data).toEqual({ 'ca.crt': 'PEM' })
  cluster.api.patch('configmaps', 'shop', 'kube-root-ca.crt', { data: { 'ca.crt': 'other' } })
  await cluster.settled()
  expect(certificate()?.data).toEqual({ 'ca.crt': 'PEM' })
  cluster.api.delete('configmaps', 'shop', 'kube-root-ca.crt')
  await cluster.settled()
  expect(certificate()).toBeDefined()
})

test('a deleted namespace takes everything with it, after its last Pod', async () => {
  cluster.api.create('deployments', 'shop', deployment('web'))
  cluster.api.create('services', 'shop', service('web', { type: 'LoadBalancer' }))
  await cluster.settled()
  const pods = () => cluster.api.list('pods', { namespace: 'shop' })
  expect(pods()).toHaveLength(2)
  cluster.kubelet.autoFinish = false
  cluster.api.delete('namespaces', undefined, 'shop')
  await cluster.settled()
  expect(cluster.api.get<Namespace>('namespaces', undefined, 'shop')?.status?.phase).toBe('Terminating')
  for (const resource of ['deployments', 'replicasets', 'services', 'endpointslices', 'endpoints', 'configmaps']) {
    expect(cluster.api.list(resource, { namespace: 'shop' })).toEqual([])
  }
  expect(pods()).toHaveLength(2)
  for (const { metadata } of pods()) cluster.api.delete('pods', 'shop', metadata.name, { gracePeriodSeconds: 0 })
  await cluster.settled()
  expect(cluster.api.get('namespaces', undefined, 'shop')).toBeUndefined()
})
