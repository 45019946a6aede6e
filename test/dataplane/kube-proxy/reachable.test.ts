import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Link } from '../../../dataplane/ip-addr.ts'
import { defaultConfig } from '../../../dataplane/kube-proxy/config.ts'
import { featuresOf, SUPPORTED_VERSIONS } from '../../../dataplane/kube-proxy/versions.ts'
import type { NodeState } from '../../../dataplane/node-state.ts'
import type { ClusterObjects, Service, ServicePortSpec } from '../../../dataplane/objects.ts'
import { predict } from '../../../dataplane/predict.ts'
import { type Packet, type Trace, tracePacket } from '../../../dataplane/trace.ts'
import { NODE } from '../recordings.ts'
import { randomObjects } from './random-objects.ts'

const mode = fc.constantFrom('iptables' as const, 'ipvs' as const)
const version = fc.constantFrom(...SUPPORTED_VERSIONS)
const config = { ...defaultConfig(), clusterCIDR: '10.244.0.0/16' }

const link = (name: string, address: string, prefixLength: number, flags: string[] = []): Link => ({
  name,
  flags,
  operstate: 'UP',
  addresses: [{ family: 'inet', address, prefixLength }],
})

/** The prediction on a node with an uplink and a Pod bridge, as the node would be read. */
function nodeWith(objects: ClusterObjects, on: 'iptables' | 'ipvs', v: string): NodeState {
  const state = predict(objects, { node: NODE, mode: on, version: v, config })
  const own = [
    link('lo', '127.0.0.1', 8, ['LOOPBACK']),
    link('eth0', '172.18.0.3', 16),
    link('cni0', '10.244.1.254', 24),
  ]
  return { ...state, links: [...own, ...state.links] }
}

interface Target {
  service: Service
  port: ServicePortSpec
  clusterIP: string
  ready: Set<string>
  usable: Set<string>
}

/** Service ports of IPv4 that share their port with no other of the same Service, with endpoints straight from the API. */
function* targets(objects: ClusterObjects): Generator<Target> {
  for (const service of objects.services) {
    const clusterIP = service.clusterIPs.find((address) => !address.includes(':'))
    if (clusterIP === undefined || service.type === 'ExternalName' || Object.keys(service.labels).length > 0) continue
    for (const port of service.ports) {
      const same = service.ports.filter((other) => other.port === port.port && other.protocol === port.protocol)
      if (same.length > 1) continue
      const ready = new Set<string>()
      const usable = new Set<string>()
      for (const slice of objects.endpointSlices)
        if (slice.serviceName === service.name && slice.addressType === 'IPv4')
          for (const { name, protocol, port: number } of slice.ports)
            if (name === port.name && protocol === port.protocol)
              for (const endpoint of slice.endpoints) {
                const to = `${endpoint.addresses[0]}:${number}`
                if (endpoint.ready) ready.add(to)
                if (endpoint.ready || (endpoint.serving && endpoint.terminating)) usable.add(to)
              }
      yield { service, port, clusterIP, ready, usable }
    }
  }
}

const packetTo = (
  from: Pick<Packet, 'from' | 'source'>,
  destination: string,
  port: number,
  protocol: string,
): Packet => ({
  ...from,
  destination,
  port,
  protocol: protocol.toLowerCase() as Packet['protocol'],
})

const pod = { from: 'pod', source: '10.244.1.250' } as const
const outside = { from: 'external', source: '203.0.113.9' } as const

function mustSpreadOver(trace: Trace, ready: ReadonlySet<string>): void {
  expect(trace.outcomes.map(({ to }) => to).sort()).toEqual([...ready].sort())
  for (const { probability } of trace.outcomes) expect(probability).toBeCloseTo(1 / ready.size, 7)
  expect(trace.outcomes.reduce((sum, { probability }) => sum + probability, 0)).toBeCloseTo(1, 9)
  expect(trace.verdict).toBe('dnat')
}

describe('traces through predictions for random Services', () => {
  test('a Pod reaches every ready endpoint of a ClusterIP with equal probability, masqueraded only if it reaches itself', () => {
    fc.assert(
      fc.property(randomObjects, mode, version, (objects, on, v) => {
        const state = nodeWith(objects, on, v)
        for (const { service, port, clusterIP, ready } of targets(objects)) {
          const isLocal = service.internalTrafficPolicy === 'Local' && featuresOf(v).internalTrafficPolicy !== 'ignored'
          if (ready.size === 0 || isLocal) continue
          const trace = tracePacket(state, packetTo(pod, clusterIP, port.port, port.protocol))
          mustSpreadOver(trace, ready)
          expect(trace.outcomes.every(({ masquerade }) => !masquerade)).toBe(true)
        }
      }),
      { numRuns: 150 },
    )
  })

  test('an external client reaches every ready endpoint through a node port with policy Cluster, masqueraded', () => {
    fc.assert(
      fc.property(randomObjects, mode, version, (objects, on, v) => {
        const state = nodeWith(objects, on, v)
        for (const { service, port, ready } of targets(objects)) {
          if (ready.size === 0 || port.nodePort === 0 || service.externalTrafficPolicy === 'Local') continue
          const isLocal = service.internalTrafficPolicy === 'Local' && featuresOf(v).internalTrafficPolicy === 'filters'
          if (isLocal) continue
          const trace = tracePacket(state, packetTo(outside, '172.18.0.3', port.nodePort, port.protocol))
          mustSpreadOver(trace, ready)
          expect(trace.outcomes.every(({ masquerade }) => masquerade)).toBe(true)
        }
      }),
      { numRuns: 150 },
    )
  })

  test('a packet to a ClusterIP without usable endpoints is rejected in both modes', () => {
    fc.assert(
      fc.property(randomObjects, mode, version, (objects, on, v) => {
        const state = nodeWith(objects, on, v)
        for (const { port, clusterIP, usable } of targets(objects)) {
          if (usable.size > 0) continue
          const trace = tracePacket(state, packetTo(pod, clusterIP, port.port, port.protocol))
          expect({ outcomes: trace.outcomes, verdict: trace.verdict }).toEqual({ outcomes: [], verdict: 'reject' })
        }
      }),
      { numRuns: 150 },
    )
  })
})

describe('the sets of ipvs mode', () => {
  /** What the API says should be in each set of addresses and ports. */
  function wantedMembers(objects: ClusterObjects, v: string): Map<string, Set<string>> {
    const wanted = new Map<string, Set<string>>()
    const add = (set: string, member: string) => wanted.set(set, (wanted.get(set) ?? new Set()).add(member))
    const features = featuresOf(v)
    for (const service of objects.services) {
      const clusterIP = service.clusterIPs.find((address) => !address.includes(':'))
      if (clusterIP === undefined || service.type === 'ExternalName' || Object.keys(service.labels).length > 0) continue
      const isExposed = service.type !== 'ClusterIP'
      const isLocal =
        service.externalTrafficPolicy === 'Local' &&
        (isExposed || (features.localPolicyForExternalIPs && service.externalIPs.length > 0))
      for (const { port, protocol, nodePort } of service.ports) {
        const at = (address: string) => `${address},${protocol.toLowerCase()}:${port}`
        add('KUBE-CLUSTER-IP', at(clusterIP))
        for (const address of service.externalIPs)
          if (!address.includes(':')) add(isLocal ? 'KUBE-EXTERNAL-IP-LOCAL' : 'KUBE-EXTERNAL-IP', at(address))
        for (const { ip, ipMode } of service.loadBalancerIngress) {
          if (ip === undefined || ip.includes(':') || (ipMode === 'Proxy' && features.ingressIPMode)) continue
          add('KUBE-LOAD-BALANCER', at(ip))
          if (isLocal) add('KUBE-LOAD-BALANCER-LOCAL', at(ip))
          if (service.loadBalancerSourceRanges.some((range) => !range.includes(':')))
            add('KUBE-LOAD-BALANCER-FW', at(ip))
        }
        if (nodePort === 0 || protocol === 'SCTP') continue
        add(`KUBE-NODE-PORT-${protocol}`, String(nodePort))
        if (isLocal) add(`KUBE-NODE-PORT-LOCAL-${protocol}`, String(nodePort))
      }
    }
    return wanted
  }

  test('contain exactly the addresses and ports of the API objects', () => {
    const names = ['CLUSTER-IP', 'EXTERNAL-IP', 'EXTERNAL-IP-LOCAL', 'LOAD-BALANCER', 'LOAD-BALANCER-LOCAL']
    names.push('LOAD-BALANCER-FW', 'NODE-PORT-TCP', 'NODE-PORT-LOCAL-TCP', 'NODE-PORT-UDP', 'NODE-PORT-LOCAL-UDP')
    fc.assert(
      fc.property(randomObjects, version, (objects, v) => {
        const { ipsets } = predict(objects, { node: NODE, mode: 'ipvs', version: v, config })
        const wanted = wantedMembers(objects, v)
        for (const name of names.map((name) => `KUBE-${name}`))
          expect([name, [...(ipsets.get(name)?.members ?? [])].sort()]).toEqual([
            name,
            [...(wanted.get(name) ?? [])].sort(),
          ])
      }),
      { numRuns: 200 },
    )
  })
})
