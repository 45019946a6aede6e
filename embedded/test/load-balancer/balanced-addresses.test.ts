import { describe, expect, test } from 'vitest'
import type { NodeObject, ServiceObject } from '../../controllers/resources.ts'
import {
  balancedAddresses,
  requiredHealthChecks,
  routeLines,
} from '../../load-balancer/load-balancer.ts'

const node = (address: string, status = 'True', labels = {}) =>
  ({
    metadata: { name: address, labels },
    spec: {},
    status: {
      conditions: [{ type: 'Ready', status }],
      addresses: [{ type: 'InternalIP', address }],
    },
  }) as NodeObject
const service = (spec: object, ingress: object[] = [{ ip: '172.18.255.200', ipMode: 'VIP' }]) =>
  ({
    metadata: { name: 'web', namespace: 'default' },
    spec: { type: 'LoadBalancer', ...spec },
    status: { loadBalancer: { ingress } },
  }) as ServiceObject

const nodes = [node('172.18.0.2'), node('172.18.0.3'), node('172.18.0.4', 'False')]
const local = service({ externalTrafficPolicy: 'Local', healthCheckNodePort: 31000 })

describe('balancedAddresses', () => {
  test('policy Cluster: every node that is Ready takes traffic', () => {
    expect(balancedAddresses([service({})], nodes, new Set())).toEqual([
      { address: '172.18.255.200', nodes: ['172.18.0.2', '172.18.0.3'] },
    ])
  })

  test('policy Local: only nodes whose health check returned 200', () => {
    expect(requiredHealthChecks([local], nodes)).toEqual(['172.18.0.2:31000', '172.18.0.3:31000'])
    expect(balancedAddresses([local], nodes, new Set(['172.18.0.3:31000']))[0]?.nodes).toEqual([
      '172.18.0.3',
    ])
    expect(balancedAddresses([local], nodes, new Set())[0]?.nodes).toEqual([])
  })

  test('other types, proxied addresses and excluded nodes are left out', () => {
    const excluded = node('172.18.0.9', 'True', {
      'node.kubernetes.io/exclude-from-external-load-balancers': '',
    })
    expect(balancedAddresses([service({ type: 'ClusterIP' })], nodes, new Set())).toEqual([])
    expect(
      balancedAddresses(
        [service({}, [{ ip: '172.18.255.201', ipMode: 'Proxy' }])],
        nodes,
        new Set(),
      ),
    ).toEqual([])
    expect(balancedAddresses([service({})], [excluded], new Set())[0]?.nodes).toEqual([])
  })
})

describe('routeLines', () => {
  const one = { address: '172.18.255.200', nodes: ['172.18.0.3', '172.18.0.4'] }

  test('a new address becomes one route over all its nodes', () => {
    expect(routeLines([], [one])).toEqual([
      'route replace 172.18.255.200/32 nexthop via 172.18.0.3 nexthop via 172.18.0.4',
    ])
  })

  test('an unchanged address has no lines, a removed one is flushed, and one without nodes is unreachable', () => {
    expect(routeLines([one], [one])).toEqual([])
    expect(routeLines([one], [])).toEqual(['route flush exact 172.18.255.200/32'])
    expect(routeLines([one], [{ ...one, nodes: [] }])).toEqual([
      'route replace unreachable 172.18.255.200/32',
    ])
  })
})
