import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { canonicalMember } from '../../../dataplane/ipset-save.ts'
import { type Chain, parseIptablesSave, printIptablesSave, type Ruleset } from '../../../dataplane/iptables-save.ts'
import { defaultConfig } from '../../../dataplane/kube-proxy/config.ts'
import { serviceHash } from '../../../dataplane/kube-proxy/ruleset-builder.ts'
import { featuresOf, SUPPORTED_VERSIONS } from '../../../dataplane/kube-proxy/versions.ts'
import type { ClusterObjects, Service } from '../../../dataplane/objects.ts'
import { predict } from '../../../dataplane/predict.ts'
import { parseRule, printRule } from '../../../dataplane/rule.ts'
import { NODE } from '../recordings.ts'
import { danglingReferences, walk } from './chain-walk.ts'
import { randomObjects } from './random-objects.ts'

const version = fc.constantFrom(...SUPPORTED_VERSIONS)
const family = fc.constantFrom('ipv4' as const, 'ipv6' as const)
const config = fc
  .record({
    masqueradeAll: fc.boolean(),
    detectLocalMode: fc.constantFrom(
      'ClusterCIDR' as const,
      'NodeCIDR' as const,
      'BridgeInterface' as const,
      'InterfaceNamePrefix' as const,
    ),
    clusterCIDR: fc.constantFrom('', '10.244.0.0/16', '10.244.0.0/16,fd00:10:244::/56'),
    bridgeInterface: fc.constantFrom('', 'cni0'),
    interfaceNamePrefix: fc.constantFrom('', 'veth'),
    nodePortAddresses: fc.subarray(['172.18.0.0/16', 'fc00::/7', '127.0.0.0/8']),
    localhostNodePorts: fc.boolean(),
    masqueradeBit: fc.integer({ min: 0, max: 31 }),
    dualStack: fc.boolean(),
  })
  .map((given) => ({ ...defaultConfig(), ...given }))
const RUNS = { numRuns: 300 }

/** Service ports with their ready endpoints, straight from the API objects. */
function* portsOf(objects: ClusterObjects, ip: 'ipv4' | 'ipv6') {
  for (const service of objects.services) {
    const clusterIP = service.clusterIPs.find((address) => address.includes(':') === (ip === 'ipv6'))
    if (clusterIP === undefined || service.type === 'ExternalName' || Object.keys(service.labels).length > 0) continue
    for (const port of service.ports) {
      const ready = new Map<string, string>()
      for (const slice of objects.endpointSlices)
        if (slice.serviceName === service.name && slice.addressType.toLowerCase() === ip)
          for (const { name, protocol, port: number } of slice.ports)
            if (name === port.name && protocol === port.protocol)
              for (const { addresses, ready: isReady, nodeName } of slice.endpoints) {
                const [address = ''] = addresses
                const text = address.includes(':') ? `[${address}]:${number}` : `${address}:${number}`
                if (isReady) ready.set(text, nodeName ?? '')
              }
      const name = `default/${service.name}${port.name === '' ? '' : `:${port.name}`}`
      yield { service, port, clusterIP, ready, name }
    }
  }
}

/** Some rule leads to the chain of node ports. */
const servesNodePorts = (nat: Map<string, Chain>) =>
  nat.get('KUBE-SERVICES')?.rules.some(({ spec }) => spec.endsWith('-j KUBE-NODEPORTS')) ?? false

const specsOf = (ruleset: Ruleset) =>
  [...ruleset.values()].flatMap((table) => [...table.values()].flatMap(({ rules }) => rules.map(({ spec }) => spec)))

const isClusterWide = (service: Service, minor: string) =>
  service.internalTrafficPolicy === 'Cluster' || featuresOf(minor).internalTrafficPolicy === 'ignored'

describe('iptables mode for random Services', () => {
  test('every ready endpoint is reachable through the ClusterIP with equal probability', () => {
    fc.assert(
      fc.property(randomObjects, version, family, config, (objects, v, ip, cfg) => {
        const state = predict(objects, { node: NODE, mode: 'iptables', version: v, family: ip, config: cfg })
        const nat = state.iptables.get('nat') ?? new Map<string, Chain>()
        for (const { service, port, ready, name } of portsOf(objects, ip)) {
          if (ready.size === 0 || !isClusterWide(service, v)) continue
          // Up to 1.23 a Service whose node port no address of the node may serve is programmed only in part, as a genuine 1.20.2 does.
          const isLeft = port.nodePort !== 0 && featuresOf(v).serviceChains !== 'external' && !servesNodePorts(nat)
          if (isLeft) continue
          const ends = walk(nat, `KUBE-SVC-${serviceHash(name, port.protocol.toLowerCase())}`)
          expect([...ends.keys()].sort()).toEqual([...ready.keys()].sort())
          for (const share of ends.values()) expect(share).toBeCloseTo(1 / ready.size, 7)
          expect([...ends.values()].reduce((a, b) => a + b)).toBeCloseTo(1, 12)
        }
      }),
      RUNS,
    )
  })

  test('every jump has its chain, and every chain a jump', () => {
    fc.assert(
      fc.property(randomObjects, version, family, config, (objects, v, ip, cfg) => {
        const state = predict(objects, { node: NODE, mode: 'iptables', version: v, family: ip, config: cfg })
        // Chains that exist once per node may have no jump; up to 1.23 KUBE-XLB- is declared before it is known who uses it.
        const perService =
          featuresOf(v).serviceChains === 'external'
            ? /KUBE-[A-Z]{2,3}-\w{16} is not used/
            : /KUBE-(SVC|SEP|FW)-\w{16} is not used/
        const faults = danglingReferences(state.iptables)
        expect(faults.filter((fault) => fault.includes('missing') || perService.test(fault))).toEqual([])
      }),
      RUNS,
    )
  })

  test('a prediction is printed and read as iptables-save, and every rule is parsed', () => {
    fc.assert(
      fc.property(randomObjects, version, family, config, (objects, v, ip, cfg) => {
        const { iptables } = predict(objects, { node: NODE, mode: 'iptables', version: v, family: ip, config: cfg })
        const text = printIptablesSave(iptables)
        expect(printIptablesSave(parseIptablesSave(text))).toBe(text)
        const printed = (spec: string) => {
          const rule = parseRule(spec)
          return rule && printRule(rule)
        }
        expect(specsOf(iptables).filter((spec) => printed(spec) !== spec)).toEqual([])
      }),
      { numRuns: 100 },
    )
  })
})

describe('ipvs mode for random Services', () => {
  test('virtual servers, sets and addresses are those of the objects, and rules match only existing sets', () => {
    fc.assert(
      fc.property(randomObjects, version, config, (objects, v, cfg) => {
        const state = predict(objects, { node: NODE, mode: 'ipvs', version: v, config: cfg })
        const families =
          featuresOf(v).dualStack === 'always' || cfg.dualStack ? (['ipv4', 'ipv6'] as const) : (['ipv4'] as const)
        const members = new Set<string>()
        const bound = new Set<string>()
        for (const ip of families)
          for (const { service, port, clusterIP, ready } of portsOf(objects, ip)) {
            members.add(`${clusterIP},${port.protocol.toLowerCase()}:${port.port}`)
            bound.add(clusterIP)
            const server = state.virtualServers.find(
              (one) => one.address === clusterIP && one.port === port.port && one.protocol === port.protocol,
            )
            if (ready.size > 0 && isClusterWide(service, v)) {
              const same = service.ports.filter((one) => one.port === port.port && one.protocol === port.protocol)
              if (same.length === 1)
                expect(
                  server?.realServers
                    .map((real) =>
                      real.address.includes(':') ? `[${real.address}]:${real.port}` : `${real.address}:${real.port}`,
                    )
                    .sort(),
                ).toEqual([...ready.keys()].sort())
            }
          }
        const sets = ['KUBE-CLUSTER-IP', 'KUBE-6-CLUSTER-IP'].flatMap((name) => [
          ...(state.ipsets.get(name)?.members ?? []),
        ])
        expect(sets.sort()).toEqual([...members].sort())
        const all = [...state.ipsets.values()].flatMap((set) => [...set.members])
        expect(all.filter((member) => canonicalMember(member) !== member)).toEqual([])
        const link = state.links.find((one) => one.name === 'kube-ipvs0')
        const addresses = new Set(link?.addresses.map(({ address }) => address))
        expect([...bound].filter((address) => !addresses.has(address))).toEqual([])
        const matched = specsOf(state.iptables).flatMap((spec) => /--match-set (\S+)/.exec(spec)?.[1] ?? [])
        expect(matched.filter((name) => !state.ipsets.has(name))).toEqual([])
        expect(
          danglingReferences(state.iptables).filter(
            (fault) => !/nat KUBE-(MARK-DROP|FIREWALL)|KUBE-LOAD-BALANCER|SOURCE-RANGES/.test(fault),
          ),
        ).toEqual([])
      }),
      RUNS,
    )
  })

  test('the number of rules does not depend on the number of Services', () => {
    const count = (services: number) => {
      const objects = fc.sample(randomObjects, { seed: 1, numRuns: 1 })[0] as ClusterObjects
      const [first] = objects.services
      if (!first) throw new Error('no Service')
      const copies = Array.from({ length: services }, (_, index) => ({
        ...first,
        name: `copy-${index}`,
        type: 'ClusterIP' as const,
        labels: {},
        externalIPs: [],
        loadBalancerIngress: [],
        ports: [{ name: '', protocol: 'TCP' as const, port: 80, nodePort: 0 }],
        clusterIPs: [`10.97.${index >> 8}.${index & 255}`],
      }))
      const state = predict({ ...objects, services: copies }, { node: NODE, mode: 'ipvs', version: '1.30' })
      return [...(state.iptables.get('nat')?.values() ?? [])].reduce((sum, chain) => sum + chain.rules.length, 0)
    }
    expect(count(1000)).toBe(count(1))
  })
})
