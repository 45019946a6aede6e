// The causal sentences of the debriefs of lab 8: on nodes of genuine kube-proxies the cause is
// added or removed, and a packet is traced. Sentences about conntrack, kernel settings and
// processes are proved by the incidents themselves (test/labs/lab-8.test.ts).

import { describe, expect, test } from 'vitest'
import type { NodeState } from '../../dataplane/node-state.ts'
import { incidents } from '../../labs/08-incidents/incidents/all.ts'
import { oneService, predictOn } from '../dataplane/kube-proxy/cluster-of.ts'
import { trace } from '../dataplane/made-node.ts'
import { stateAt } from '../dataplane/recordings.ts'

const pod = 'pod:10.244.1.99'
const SHOP = '10.96.119.228:80'
const BALANCER = '172.18.255.200:80'

const recorded = (mode: string, name: string) => stateAt(`v1.30.3/${mode}/${name}`)

/** The node with other rules in one chain. */
function withChain(
  state: NodeState,
  table: string,
  chain: string,
  change: (specs: string[]) => string[],
): NodeState {
  const chains = new Map(state.iptables.get(table))
  const before = chains.get(chain)
  if (!before) throw new Error(`the recording has no chain ${chain}`)
  const specs = change(before.rules.map(({ spec }) => spec))
  const rules = specs.map((spec) => ({ ...before.rules[0], spec }))
  chains.set(chain, { ...before, rules: rules as typeof before.rules })
  return { ...state, iptables: new Map(state.iptables).set(table, chains) }
}

const debriefOf = (id: string) =>
  incidents.find((incident) => incident.id === id)?.debrief.replaceAll('\n', ' ') ?? ''

describe.each(['iptables', 'ipvs', 'nftables'])('source-ranges in %s mode', (mode) => {
  const state = recorded(mode, 'web-lb-source-ranges')

  test('"It applies to Pods, too": a Pod that is not listed is dropped at the address of the load balancer', () => {
    expect(debriefOf('source-ranges')).toContain('It applies to Pods, too')
    expect(trace(state, pod, BALANCER).verdict).toBe('drop')
  })

  test('"Pods that use the ClusterIP … are not affected", and listed clients pass', () => {
    expect(trace(state, pod, SHOP).verdict).toBe('dnat')
    expect(trace(state, 'external:203.0.113.9', BALANCER).verdict).toBe('dnat')
    expect(trace(state, 'external:192.0.2.9', BALANCER).verdict).toBe('drop')
  })
})

test('selector-typo: "it writes a REJECT rule", and without it nothing refuses the packet', () => {
  const state = recorded('iptables', 'web-no-endpoints')
  expect(trace(state, pod, SHOP).verdict).toBe('reject')
  const without = withChain(state, 'filter', 'KUBE-SERVICES', (specs) =>
    specs.filter((spec) => !spec.includes('-j REJECT')),
  )
  expect(trace(without, pod, SHOP)).toMatchObject({ verdict: 'accept' })
})

test('lost-endpoint-rule: after the last endpoint there is no other rule, so that share leaves untranslated', () => {
  const state = recorded('iptables', 'web-clusterip')
  const nat = state.iptables.get('nat') ?? new Map()
  const last = [...nat.keys()].filter((name) => name.startsWith('KUBE-SEP-'))
  const service = [...nat.values()].find(
    ({ name, rules }) =>
      name.startsWith('KUBE-SVC-') &&
      rules.some(({ spec }: { spec: string }) => spec.includes('default/web')),
  )
  const target = / -j (KUBE-SEP-\S+)/.exec(service?.rules.at(-1)?.spec ?? '')?.[1] ?? ''
  expect(last).toContain(target)
  const without = withChain(state, 'nat', target, (specs) =>
    specs.filter((spec) => !spec.includes('-j DNAT')),
  )
  const { outcomes } = trace(without, pod, SHOP)
  expect(outcomes.find(({ to }) => to === SHOP)?.probability).toBeCloseTo(0.5, 5)
  expect(trace(state, pod, SHOP).outcomes.map(({ to }) => to)).not.toContain(SHOP)
})

test('missing-masquerade: "without the jump the mark has no effect"', () => {
  const state = recorded('iptables', 'web-nodeport')
  const port = nodePortOf(state)
  const masqueraded = (of: NodeState) =>
    trace(of, 'external:203.0.113.9', port).outcomes.map(({ masquerade }) => masquerade)
  expect(masqueraded(state)).toEqual([true, true])
  const without = withChain(state, 'nat', 'POSTROUTING', (specs) =>
    specs.filter((spec) => !spec.includes('-j KUBE-POSTROUTING')),
  )
  expect(masqueraded(without)).toEqual([false, false])
})

/** The node's address with the port of its node port rule. */
function nodePortOf({ iptables }: NodeState): string {
  const rules = iptables.get('nat')?.get('KUBE-NODEPORTS')?.rules ?? []
  const port = rules.flatMap(({ spec }) => / --dport (\d+)/.exec(spec)?.[1] ?? [])[0]
  if (port === undefined) throw new Error('the recording has no node port')
  return `172.18.0.3:${port}`
}

test('internal-policy: a node without a Pod drops by a "has no local endpoints" rule, a node with one serves', () => {
  const elsewhere = recorded('iptables', 'x-both-local-elsewhere')
  const rule = [...(elsewhere.iptables.get('filter')?.values() ?? [])]
    .flatMap(({ rules }) => rules.map(({ spec }) => spec))
    .find((spec) => spec.includes('has no local endpoints') && spec.includes('-d 10.96.'))
  const address = / -d ([0-9.]+)|^-d ([0-9.]+)/
    .exec(rule ?? '')
    ?.slice(1)
    .find(Boolean)
  const port = / --dport (\d+)/.exec(rule ?? '')?.[1]
  expect(trace(elsewhere, 'host', `${address}:${port}`).verdict).toBe('drop')
  expect(trace(recorded('iptables', 'web-itp-local'), 'host', SHOP).verdict).toBe('dnat')
})

test('internal-policy: "in IPVS mode a refusal: the virtual server has no real server"', () => {
  const state = recorded('ipvs', 'web-itp-local')
  const elsewhere = {
    ...state,
    virtualServers: state.virtualServers.map((server) =>
      server.address === '10.96.119.228' ? { ...server, realServers: [] } : server,
    ),
  }
  expect(debriefOf('internal-policy')).toContain('in IPVS mode a refusal')
  expect(trace(elsewhere, pod, SHOP).verdict).toBe('reject')
})

test('address-janitor: without its address on kube-ipvs0 the packet is routed away, and IPVS does not see it', () => {
  const state = recorded('ipvs', 'web-clusterip')
  expect(trace(state, pod, SHOP).verdict).toBe('dnat')
  const swept = {
    ...state,
    links: state.links.map((link) => ({
      ...link,
      addresses: link.addresses.filter(({ address }) => address !== '10.96.119.228'),
    })),
  }
  expect(trace(swept, pod, SHOP)).toMatchObject({ verdict: 'accept' })
})

test('weight-zero: a real server of weight 0 gets no new connections', () => {
  const state = recorded('ipvs', 'web-clusterip')
  const drained = {
    ...state,
    virtualServers: state.virtualServers.map((server) => ({
      ...server,
      realServers: server.realServers.map((real, index) =>
        server.address === '10.96.119.228' && index === 0 ? { ...real, weight: 0 } : real,
      ),
    })),
  }
  const targets = (of: NodeState) => trace(of, pod, SHOP).outcomes.map(({ to }) => to)
  expect(targets(drained)).toEqual(targets(state).slice(1))
})

test('stale-reject: packets of Pods pass no REJECT rule on their way to IPVS, those for the node port do', () => {
  const old = recorded('iptables', 'web-nodeport')
  const now = recorded('ipvs', 'web-nodeport')
  const port = nodePortOf(old)
  const reject = `-p tcp -m addrtype --dst-type LOCAL -m tcp --dport ${port.split(':')[1]} -j REJECT --reject-with icmp-port-unreachable`
  // The chains of iptables mode stay, with the rules of a night without endpoints, and IPVS mode
  // adds its own jumps.
  const filter = new Map(old.iptables.get('filter'))
  const [first] = filter.get('INPUT')?.rules ?? []
  const external = filter.get('KUBE-EXTERNAL-SERVICES')
  if (!first || !external) throw new Error('the recording has no rules in INPUT')
  filter.set('KUBE-EXTERNAL-SERVICES', {
    ...external,
    rules: [{ ...first, spec: reject }] as typeof external.rules,
  })
  for (const [name, chain] of now.iptables.get('filter') ?? [])
    if (!filter.has(name)) filter.set(name, chain)
  const after = { ...now, iptables: new Map(now.iptables).set('filter', filter) }
  expect(trace(after, 'external:203.0.113.9', port).verdict).toBe('reject')
  expect(trace(after, pod, SHOP).verdict).toBe('dnat')
})

describe('close-endpoints', () => {
  const hinted = (zone: string, ip: string) => ({ ip, hints: { forZones: [{ name: zone }] } })
  /** Node w is in zone a. */
  const targets = (...backends: { ip: string }[]) => {
    const state = predictOn(oneService({}, backends), '1.34.2')
    const { outcomes } = trace(state, 'pod:10.244.1.99', '10.96.0.7:80')
    return outcomes.map(({ to }) => to)
  }
  const near = hinted('a', '10.244.1.5')
  const far = hinted('b', '10.244.2.5')

  test('"leaves out those that are meant for other zones", while one is left for its own', () => {
    expect(targets(near, far)).toEqual(['10.244.1.5:8080'])
    expect(targets({ ip: near.ip }, { ip: far.ip })).toHaveLength(2)
    expect(targets(far)).toEqual(['10.244.2.5:8080'])
  })

  test('"a new Pod in the other zone changes nothing for them", one in their own takes half', () => {
    expect(targets(near, far, hinted('b', '10.244.2.6'))).toEqual(targets(near, far))
    expect(targets(near, far, hinted('a', '10.244.1.6'))).toHaveLength(2)
  })
})

test('forgotten-canary: iptables mode answers a node port on 127.0.0.1, and IPVS mode has no virtual server there', () => {
  const old = recorded('iptables', 'web-nodeport')
  const loopback = nodePortOf(old).replace(/^[^:]*/, '127.0.0.1')
  expect(trace(old, 'host', loopback).verdict).toBe('dnat')
  expect(trace(recorded('ipvs', 'web-nodeport'), 'host', loopback)).toMatchObject({
    verdict: 'accept',
  })
})
