// Predictions for random Services, beside what the API objects say.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Link } from '../../../dataplane/ip-addr.ts'
import { canonicalAddress, type Family, printEndpoint } from '../../../dataplane/ip-address.ts'
import {
  parseIptablesSave,
  printIptablesSave,
  type Ruleset,
} from '../../../dataplane/iptables-save.ts'
import { defaultConfig, type KubeProxyConfig } from '../../../dataplane/kube-proxy/config.ts'
import { featuresOf, SUPPORTED_VERSIONS } from '../../../dataplane/kube-proxy/versions.ts'
import type { NodeState } from '../../../dataplane/node-state.ts'
import type { ClusterObjects, Service, ServicePortSpec } from '../../../dataplane/objects.ts'
import { predict } from '../../../dataplane/predict.ts'
import { parseRule, printRule, targetOf } from '../../../dataplane/rule.ts'
import { parsePacket, type Trace, tracePacket } from '../../../dataplane/trace.ts'
import { NODE, recordedConfig } from '../recordings.ts'
import { randomObjects } from './random-objects.ts'

const mode = fc.constantFrom('iptables' as const, 'ipvs' as const)
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
  .map((input) => ({ ...defaultConfig(), ...input }))
const RUNS = { numRuns: 300 }

interface Target {
  service: Service
  port: ServicePortSpec
  clusterIP: string
  /** No other port of the Service has the same number and protocol. */
  isAlone: boolean
  ready: Set<string>
  /** Ready, or serving while they terminate. */
  usable: Set<string>
}

/** Service ports with their endpoints, straight from the API objects. */
function* targets(objects: ClusterObjects, family: Family = 'ipv4'): Generator<Target> {
  for (const service of objects.services) {
    const clusterIP = service.clusterIPs.find(
      (address) => address.includes(':') === (family === 'ipv6'),
    )
    if (
      clusterIP === undefined ||
      service.type === 'ExternalName' ||
      Object.keys(service.labels).length > 0
    )
      continue
    const slices = objects.endpointSlices.filter(
      ({ serviceName, addressType }) =>
        serviceName === service.name && addressType.toLowerCase() === family,
    )
    for (const port of service.ports) {
      const same = service.ports.filter(
        (other) => other.port === port.port && other.protocol === port.protocol,
      )
      yield { service, port, clusterIP, isAlone: same.length === 1, ...endpointsOf(port, slices) }
    }
  }
}

/** The endpoints of a Service port in its slices, as `ip:port`. */
function endpointsOf(
  port: Service['ports'][number],
  slices: ClusterObjects['endpointSlices'],
): Pick<Target, 'ready' | 'usable'> {
  const endpoints = slices.flatMap((slice) =>
    slice.ports
      .filter(({ name, protocol }) => name === port.name && protocol === port.protocol)
      .flatMap(({ port: number }) => slice.endpoints.map((endpoint) => ({ ...endpoint, number }))),
  )
  const print = (some: typeof endpoints) =>
    new Set(some.map(({ addresses, number }) => printEndpoint(addresses[0] ?? '', number)))
  return {
    ready: print(endpoints.filter(({ ready }) => ready)),
    usable: print(
      endpoints.filter(({ ready, serving, terminating }) => ready || (serving && terminating)),
    ),
  }
}

const isClusterWide = (service: Service, minor: string) =>
  service.internalTrafficPolicy === 'Cluster' ||
  featuresOf(minor).internalTrafficPolicy === 'ignored'

const specsOf = (ruleset: Ruleset) =>
  [...ruleset.values()].flatMap((table) =>
    [...table.values()].flatMap(({ rules }) => rules.map(({ spec }) => spec)),
  )

/** A part of a member with a canonical address, and without a prefix length that ipset omits. */
const isAsIpsetPrints = (part: string): boolean => {
  const [address = ''] = part.split('/')
  return canonicalAddress(address) === address && !/\/(32|128)$/.test(part)
}

describe('traces through predictions', () => {
  const link = (name: string, ...addresses: [address: string, prefixLength: number][]): Link => ({
    name,
    flags: [],
    operstate: 'UP',
    addresses: addresses.map(([address, prefixLength]) => {
      return { family: address.includes(':') ? 'inet6' : 'inet', address, prefixLength }
    }),
  })
  const links = [
    link('lo', ['127.0.0.1', 8], ['::1', 128]),
    link('eth0', ['172.18.0.3', 16], ['fc00:f853:ccd:e793::3', 64]),
    link('cni0', ['10.244.1.254', 24], ['fd00:10:244:2::fe', 64]),
  ]
  const POD = { ipv4: 'pod:10.244.1.250', ipv6: 'pod:fd00:10:244:2::fa' }

  /** The prediction on a node with an uplink and a Pod bridge, as the node would be read. */
  function nodeWith(
    objects: ClusterObjects,
    on: 'iptables' | 'ipvs',
    v: string,
    {
      family = 'ipv4',
      config = recordedConfig(),
    }: { family?: Family; config?: KubeProxyConfig } = {},
  ): NodeState {
    const state = predict(objects, { node: NODE, mode: on, version: v, family, config })
    return { ...state, links: [...links, ...state.links] }
  }
  const traceTo = (
    state: NodeState,
    from: string,
    address: string,
    port: number,
    protocol: string,
  ) =>
    tracePacket(
      state,
      parsePacket(from, `${printEndpoint(address, port)}/${protocol.toLowerCase()}`),
    )

  function mustSpreadOver(trace: Trace, ready: ReadonlySet<string>): void {
    expect(trace.outcomes.map(({ to }) => to).sort()).toEqual([...ready].sort())
    for (const { probability } of trace.outcomes) expect(probability).toBeCloseTo(1 / ready.size, 7)
    expect(trace.outcomes.reduce((sum, { probability }) => sum + probability, 0)).toBeCloseTo(1, 9)
    expect(trace.verdict).toBe('dnat')
  }

  test('a Pod reaches every ready endpoint of a ClusterIP with equal probability, with any configuration', () => {
    fc.assert(
      fc.property(randomObjects, mode, version, family, config, (objects, on, v, ip, cfg) => {
        const state = nodeWith(objects, on, v, { family: ip, config: cfg })
        const tail = state.iptables.get('nat')?.get('KUBE-SERVICES')?.rules.at(-1)
        for (const { service, port, clusterIP, isAlone, ready } of targets(objects, ip)) {
          if (!isAlone || ready.size === 0 || !isClusterWide(service, v)) continue
          // Up to 1.23 a Service whose node port no address of the node may serve is programmed
          // only in part, as a genuine 1.20.2 does.
          const isLeft = port.nodePort !== 0 && !tail?.spec.endsWith('-j KUBE-NODEPORTS')
          if (on === 'iptables' && isLeft && featuresOf(v).serviceChains !== 'external') continue
          mustSpreadOver(traceTo(state, POD[ip], clusterIP, port.port, port.protocol), ready)
        }
      }),
      RUNS,
    )
  })

  test('with the Pod range configured, a Pod is masqueraded only if it reaches itself', () => {
    fc.assert(
      fc.property(randomObjects, mode, version, (objects, on, v) => {
        const state = nodeWith(objects, on, v)
        for (const { service, port, clusterIP, isAlone, ready } of targets(objects)) {
          if (!isAlone || ready.size === 0 || !isClusterWide(service, v)) continue
          const { outcomes } = traceTo(state, POD.ipv4, clusterIP, port.port, port.protocol)
          expect(outcomes.filter(({ masquerade }) => masquerade)).toEqual([])
        }
      }),
      { numRuns: 50 },
    )
  })

  test('an external client reaches every ready endpoint through a node port with policy Cluster, masqueraded', () => {
    fc.assert(
      fc.property(randomObjects, mode, version, (objects, on, v) => {
        const state = nodeWith(objects, on, v)
        for (const { service, port, isAlone, ready } of targets(objects)) {
          if (
            !isAlone ||
            ready.size === 0 ||
            port.nodePort === 0 ||
            service.externalTrafficPolicy === 'Local'
          )
            continue
          if (
            service.internalTrafficPolicy === 'Local' &&
            featuresOf(v).internalTrafficPolicy === 'filters'
          )
            continue
          const trace = traceTo(
            state,
            'external:203.0.113.9',
            '172.18.0.3',
            port.nodePort,
            port.protocol,
          )
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
        for (const { port, clusterIP, isAlone, usable } of targets(objects)) {
          if (!isAlone || usable.size > 0) continue
          const trace = traceTo(state, POD.ipv4, clusterIP, port.port, port.protocol)
          expect({ outcomes: trace.outcomes, verdict: trace.verdict }).toEqual({
            outcomes: [],
            verdict: 'reject',
          })
        }
      }),
      { numRuns: 150 },
    )
  })
})

const TARGETS = new Set([
  'ACCEPT',
  'DROP',
  'RETURN',
  'REJECT',
  'DNAT',
  'MASQUERADE',
  'MARK',
  'REDIRECT',
])

/** Chains that rules lead to but that do not exist, and chains that nothing leads to. */
function danglingReferences(ruleset: Ruleset): string[] {
  return [...ruleset].flatMap(([table, chains]) => {
    const jumps = [...chains.values()].flatMap(({ name, rules }) =>
      rules.flatMap(({ spec }) => ({ from: name, to: targetOf(spec) ?? 'ACCEPT' })),
    )
    const led = new Set(jumps.map(({ to }) => to))
    return [
      ...jumps
        .filter(({ to }) => !TARGETS.has(to) && !chains.has(to))
        .map(({ from, to }) => `${table} ${from} leads to ${to}, which is missing`),
      ...[...chains.values()]
        .filter(({ name, policy }) => policy === '-' && !led.has(name))
        .map(({ name }) => `${table} ${name} is not used`),
    ]
  })
}

describe('the rules of iptables mode', () => {
  test('every jump has its chain, and every chain a jump', () => {
    fc.assert(
      fc.property(randomObjects, version, family, config, (objects, v, ip, cfg) => {
        const state = predict(objects, {
          node: NODE,
          mode: 'iptables',
          version: v,
          family: ip,
          config: cfg,
        })
        // Chains that exist once per node may have no jump; up to 1.23 KUBE-XLB- is declared before
        // it is known who uses it.
        const perService =
          featuresOf(v).serviceChains === 'external'
            ? /KUBE-[A-Z]{2,3}-\w{16} is not used/
            : /KUBE-(SVC|SEP|FW)-\w{16} is not used/
        const faults = danglingReferences(state.iptables)
        expect(
          faults.filter((fault) => fault.includes('missing') || perService.test(fault)),
        ).toEqual([])
      }),
      RUNS,
    )
  })

  test('are printed and read as iptables-save, and every rule is parsed', () => {
    fc.assert(
      fc.property(randomObjects, version, family, config, (objects, v, ip, cfg) => {
        const { iptables } = predict(objects, {
          node: NODE,
          mode: 'iptables',
          version: v,
          family: ip,
          config: cfg,
        })
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

const isIpv4 = (text: string | undefined) => text !== undefined && !text.includes(':')

/**
 * Addresses of a load balancer that kube-proxy programs: those in mode Proxy only where it does not
 * know the mode.
 */
const isBalanced =
  (takesProxyMode: boolean) =>
  ({ ip, ipMode }: Service['loadBalancerIngress'][number]) =>
    isIpv4(ip) && (takesProxyMode || ipMode !== 'Proxy')

/** The sets that contain a node port. */
const nodePortSets = ({ protocol, nodePort }: Target['port'], isLocal: boolean): string[] => {
  if (nodePort === 0 || protocol === 'SCTP') return []
  const local = isLocal ? [`KUBE-NODE-PORT-LOCAL-${protocol}`] : []
  return [`KUBE-NODE-PORT-${protocol}`, ...local]
}

/** Whether requests from outside stay on their node. */
const isLocalOutside = (service: Service, minor: string) =>
  service.externalTrafficPolicy === 'Local' &&
  (service.type !== 'ClusterIP' ||
    (featuresOf(minor).localPolicyForExternalIPs && service.externalIPs.length > 0))

/** What the API says should be in each set of addresses and ports. */
function wantedMembers(objects: ClusterObjects, v: string): Map<string, Set<string>> {
  const wanted = new Map<string, Set<string>>()
  const add = (set: string, member: string) =>
    wanted.set(set, (wanted.get(set) ?? new Set()).add(member))
  const features = featuresOf(v)
  for (const { service, port, clusterIP } of targets(objects)) {
    const { externalIPs, loadBalancerIngress, loadBalancerSourceRanges } = service
    const isLocal = isLocalOutside(service, v)
    const { nodePort } = port
    const at = (address: string) => memberOf(address, port)
    add('KUBE-CLUSTER-IP', at(clusterIP))
    const externalSet = isLocal ? 'KUBE-EXTERNAL-IP-LOCAL' : 'KUBE-EXTERNAL-IP'
    for (const address of externalIPs.filter(isIpv4)) add(externalSet, at(address))
    const takesProxyMode = !features.ingressIPMode
    const balanced = loadBalancerIngress.filter(isBalanced(takesProxyMode))
    for (const { ip = '' } of balanced) {
      add('KUBE-LOAD-BALANCER', at(ip))
      if (isLocal) add('KUBE-LOAD-BALANCER-LOCAL', at(ip))
      if (loadBalancerSourceRanges.some(isIpv4)) add('KUBE-LOAD-BALANCER-FW', at(ip))
    }
    for (const set of nodePortSets(port, isLocal)) add(set, String(nodePort))
  }
  return wanted
}

/** A Service's port as an entry of an ipset. */
const memberOf = (address: string, { protocol, port }: Target['port']): string =>
  `${address},${protocol.toLowerCase()}:${port}`

/** The real servers of a ClusterIP's port, sorted; undefined without its virtual server. */
const realServersOf = (state: NodeState, { clusterIP, port }: Target): string[] | undefined =>
  state.virtualServers
    .find(
      (one) =>
        one.address === clusterIP && one.port === port.port && one.protocol === port.protocol,
    )
    ?.realServers.map((real) => printEndpoint(real.address, real.port))
    .sort()

describe('the state of ipvs mode', () => {
  test('virtual servers and addresses are those of the objects, members are canonical, and rules match only existing sets', () => {
    fc.assert(
      fc.property(randomObjects, version, config, (objects, v, cfg) => {
        const state = predict(objects, { node: NODE, mode: 'ipvs', version: v, config: cfg })
        const isDual = featuresOf(v).dualStack === 'always' || cfg.dualStack
        const families = isDual ? (['ipv4', 'ipv6'] as const) : (['ipv4'] as const)
        const all = families.flatMap((ip) => [...targets(objects, ip)])
        const bound = new Set(all.map(({ clusterIP }) => clusterIP))
        const members = new Set(all.map(({ clusterIP, port }) => memberOf(clusterIP, port)))
        for (const target of all)
          if (target.isAlone && target.ready.size > 0 && isClusterWide(target.service, v))
            expect(realServersOf(state, target)).toEqual([...target.ready].sort())
        const sets = ['KUBE-CLUSTER-IP', 'KUBE-6-CLUSTER-IP'].flatMap((name) => [
          ...(state.ipsets.get(name)?.members ?? []),
        ])
        expect(sets.sort()).toEqual([...members].sort())
        const printed = [...state.ipsets.values()].flatMap((set) => [...set.members])
        expect(
          printed.flatMap((member) => member.split(',')).filter((part) => !isAsIpsetPrints(part)),
        ).toEqual([])
        const dummy = state.links.find((one) => one.name === 'kube-ipvs0')
        const addresses = new Set(dummy?.addresses.map(({ address }) => address))
        expect([...bound].filter((address) => !addresses.has(address))).toEqual([])
        const matched = specsOf(state.iptables).flatMap(
          (spec) => /--match-set (\S+)/.exec(spec)?.[1] ?? [],
        )
        expect(matched.filter((name) => !state.ipsets.has(name))).toEqual([])
        expect(
          danglingReferences(state.iptables).filter(
            (fault) =>
              !/nat KUBE-(MARK-DROP|FIREWALL)|KUBE-LOAD-BALANCER|SOURCE-RANGES/.test(fault),
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
      const state = predict(
        { ...objects, services: copies },
        { node: NODE, mode: 'ipvs', version: '1.30' },
      )
      return [...(state.iptables.get('nat')?.values() ?? [])].reduce(
        (sum, chain) => sum + chain.rules.length,
        0,
      )
    }
    expect(count(1000)).toBe(count(1))
  })

  test('sets contain exactly the addresses and ports of the API objects', () => {
    const names = [
      'CLUSTER-IP',
      'EXTERNAL-IP',
      'EXTERNAL-IP-LOCAL',
      'LOAD-BALANCER',
      'LOAD-BALANCER-LOCAL',
    ]
    names.push(
      'LOAD-BALANCER-FW',
      'NODE-PORT-TCP',
      'NODE-PORT-LOCAL-TCP',
      'NODE-PORT-UDP',
      'NODE-PORT-LOCAL-UDP',
    )
    fc.assert(
      fc.property(randomObjects, version, (objects, v) => {
        const { ipsets } = predict(objects, {
          node: NODE,
          mode: 'ipvs',
          version: v,
          config: recordedConfig(),
        })
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
