import { expect, test } from 'vitest'
import { readRoutes, routeScript } from '../../../cluster/kind/load-balancer/appliance.ts'
import { poolOf } from '../../../host/address-pool.ts'
import type { ServiceObject } from '../../controllers/resources.ts'
import * as balancer from '../../load-balancer/assignments.ts'

const pool = { first: '172.18.255.200', last: '172.18.255.202' }

/** The changes by name. */
const assignments = (services: readonly ServiceObject[]) =>
  balancer
    .assignments(services, pool)
    .map(({ service, ...change }) => ({ name: service.metadata.name, ...change }))

const service = (
  name: string,
  spec: Partial<ServiceObject['spec']> = {},
  ip?: string,
): ServiceObject => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace: 'default', uid: `uid-${name}` } as ServiceObject['metadata'],
  spec: { type: 'LoadBalancer', ...spec } as ServiceObject['spec'],
  status: { loadBalancer: ip === undefined ? {} : { ingress: [{ ip }] } },
})

test('the pool lies near the end of the network, wherever the network is', () => {
  expect(poolOf('172.18.0.0/16')).toEqual({ first: '172.18.255.200', last: '172.18.255.250' })
  expect(poolOf('192.168.228.0/24')).toEqual({ first: '192.168.228.200', last: '192.168.228.250' })
  expect(poolOf('10.89.1.7/28')).toEqual({ first: '10.89.1.12', last: '10.89.1.14' })
  expect(() => poolOf('10.0.0.0/30')).toThrow(
    /"10.0.0.0\/30" is not an IPv4 network that is large enough/,
  )
  expect(() => poolOf('fc00:f853::/64')).toThrow()
})

test('every Service of the type gets an address of its own and keeps it', () => {
  const services = [
    service('a'),
    service('b', {}, '172.18.255.200'),
    service('c', { type: 'ClusterIP' }),
  ]
  expect(assignments(services)).toEqual([{ name: 'a', ip: '172.18.255.201' }])
  const [first, ...others] = services
  const assigned = {
    ...service('a', {}, '172.18.255.201'),
    metadata: first?.metadata ?? service('a').metadata,
  }
  expect(assignments([assigned, ...others])).toEqual([])
})

test('two Services that name the same address are distinguished: the first keeps it', () => {
  const both = [service('a', {}, '172.18.255.200'), service('b', {}, '172.18.255.200')]
  expect(assignments(both)).toEqual([{ name: 'b', ip: '172.18.255.201' }])
})

test('an address is taken back from a Service of another type, but not what another program gave', () => {
  const former = service('a', { type: 'ClusterIP' }, '172.18.255.200')
  expect(assignments([former])).toEqual([{ name: 'a', ip: undefined }])
  const foreign = service('b', { type: 'ClusterIP' }, '203.0.113.5')
  const otherClass = service('c', { loadBalancerClass: 'example.org/x' }, '172.18.255.201')
  expect(assignments([foreign, otherClass])).toEqual([])
})

test('a request that cannot be met, and an exhausted pool, are reported', () => {
  const requested = service('a', { loadBalancerIP: '192.0.2.1' })
  expect(assignments([requested])[0]?.fault).toContain(
    'requested address "192.0.2.1" is not in the pool',
  )
  const four = ['a', 'b', 'c', 'd'].map((name) => service(name))
  const changes = assignments(four)
  expect(changes.map(({ ip }) => ip)).toEqual([
    '172.18.255.200',
    '172.18.255.201',
    '172.18.255.202',
    undefined,
  ])
  expect(changes[3]?.fault).toContain('no address of the pool')
})

test('routes change only where something changed, and come back as they were written', () => {
  const a = { address: '172.18.255.200', nodes: ['172.18.0.3', '172.18.0.4'] }
  const b = { address: '172.18.255.201', nodes: [] }
  expect(routeScript([a, b], [a, b])).toEqual([])
  expect(routeScript([], [a])).toEqual([
    'ip address replace 172.18.255.200/32 dev lo',
    'ip route replace 172.18.255.200/32 table 100 nexthop via 172.18.0.3 nexthop via 172.18.0.4',
  ])
  expect(routeScript([a], [{ ...a, nodes: [] }])).toEqual([
    'ip route flush table 100 172.18.255.200/32',
    'ip address replace 172.18.255.200/32 dev lo',
    'ip route replace unreachable 172.18.255.200/32 table 100',
  ])
  expect(routeScript([a, b], [a])).toEqual([
    'ip address del 172.18.255.201/32 dev lo',
    'ip route flush table 100 172.18.255.201/32',
  ])
})

test('what the kernel prints is read back', () => {
  const printed = [
    '172.18.255.200 \\\tnexthop via 172.18.0.3 dev eth0 weight 1 \\\tnexthop via 172.18.0.4 dev eth0 weight 1 ',
    '172.18.255.201 via 172.18.0.3 dev eth0 ',
    'unreachable 172.18.255.202 ',
    '',
  ]
  expect(readRoutes(printed.join('\n'))).toEqual([
    { address: '172.18.255.200', nodes: ['172.18.0.3', '172.18.0.4'] },
    { address: '172.18.255.201', nodes: ['172.18.0.3'] },
    { address: '172.18.255.202', nodes: [] },
  ])
})
