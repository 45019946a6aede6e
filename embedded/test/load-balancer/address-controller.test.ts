import { afterEach, expect, test } from 'vitest'
import { startTestCluster, type TestCluster } from '../controllers/cluster.ts'
import { service } from '../controllers/manifests.ts'

let cluster: TestCluster
afterEach(() => cluster.stop())

const pool = { first: '172.18.255.200', last: '172.18.255.202' }
const ingress = (name: string) => cluster.service(name).status?.loadBalancer?.ingress
const failures = () => cluster.events('SyncLoadBalancerFailed').map(({ message }) => message)

async function create(name: string, spec: Record<string, unknown> = {}) {
  cluster.api.create('services', 'default', service(name, { type: 'LoadBalancer', ...spec }))
  await cluster.settled()
}

test('Services get the addresses of the default pool in order', async () => {
  cluster = startTestCluster()
  for (const name of ['a', 'b']) await create(name)
  expect(ingress('a')).toEqual([{ ip: '172.18.255.200', ipMode: 'VIP' }])
  expect(ingress('b')).toEqual([{ ip: '172.18.255.201', ipMode: 'VIP' }])
  expect(cluster.events('EnsuredLoadBalancer')).toHaveLength(2)
})

test('an address is given back when the Service is deleted or changes its type', async () => {
  cluster = startTestCluster({ loadBalancerPool: pool })
  for (const name of ['a', 'b', 'c']) await create(name)
  cluster.api.delete('services', 'default', 'a')
  await cluster.settled()
  expect(cluster.api.get('services', 'default', 'a')).toBeUndefined()
  cluster.api.patch('services', 'default', 'b', { spec: { type: 'ClusterIP' } })
  await cluster.settled()
  expect(ingress('b')).toBeUndefined()
  expect(cluster.service('b').metadata.finalizers).toBeUndefined()
  await create('d')
  await create('e')
  expect([ingress('d')?.[0]?.ip, ingress('e')?.[0]?.ip].sort()).toEqual([
    '172.18.255.200',
    '172.18.255.201',
  ])
})

test('an exhausted pool is reported, and served as soon as an address is free', async () => {
  cluster = startTestCluster({ loadBalancerPool: pool })
  for (const name of ['a', 'b', 'c', 'd']) await create(name)
  expect(ingress('d')).toBeUndefined()
  expect(failures()).toEqual([
    'Error syncing load balancer: failed to ensure load balancer: no address of the pool 172.18.255.200-172.18.255.202 is free',
  ])
  cluster.api.delete('services', 'default', 'b')
  await cluster.settled()
  expect(ingress('d')?.[0]?.ip).toBe('172.18.255.201')
})

test('spec.loadBalancerIP is honoured, unless it is taken or not in the pool', async () => {
  cluster = startTestCluster({ loadBalancerPool: pool })
  await create('a', { loadBalancerIP: '172.18.255.202' })
  await create('b', { loadBalancerIP: '172.18.255.202' })
  await create('c', { loadBalancerIP: '192.0.2.1' })
  expect(ingress('a')?.[0]?.ip).toBe('172.18.255.202')
  expect([ingress('b'), ingress('c')]).toEqual([undefined, undefined])
  expect(failures()[0]).toContain('requested address "172.18.255.202" belongs to another Service')
  expect(failures()[1]).toContain(
    'requested address "192.0.2.1" is not in the pool 172.18.255.200-172.18.255.202',
  )
  cluster.api.patch('services', 'default', 'a', { spec: { loadBalancerIP: '172.18.255.200' } })
  await cluster.settled()
  expect(ingress('a')?.[0]?.ip).toBe('172.18.255.200')
  expect(ingress('b')?.[0]?.ip).toBe('172.18.255.202')
})

test('a Service of another load balancer class is left to others', async () => {
  cluster = startTestCluster()
  await create('a', { loadBalancerClass: 'example.org/other' })
  expect(ingress('a')).toBeUndefined()
  expect(cluster.service('a').metadata.finalizers).toBeUndefined()
})
