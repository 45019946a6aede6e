// Traces through nftables rules; nft-kernel.test.ts compares them with a kernel.

import { describe, expect, test } from 'vitest'
import type { NftTable } from '../../dataplane/nft-table.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { stoppingPlace } from '../../dataplane/trace/stopping-place.ts'
import { parsePacket, tracePacket } from '../../dataplane/trace.ts'
import { node as madeNode, pod, trace } from './made-node.ts'
import { predictedTables } from './recordings.ts'

/**
 * A node with one table: rules by base chain (`prerouting nat -100`) or other chain, and the
 * elements of sets and maps.
 */
function nodeWith(
  chains: Record<string, string[]>,
  {
    sets = {},
    maps = {},
    policy,
  }: {
    sets?: Record<string, string[]>
    maps?: Record<string, Record<string, string>>
    policy?: 'drop'
  } = {},
): NodeState {
  const table: NftTable = {
    family: 'ip',
    name: 'kube-proxy',
    chains: new Map(),
    sets: new Map(),
    maps: new Map(),
  }
  for (const [title, texts] of Object.entries(chains)) {
    const [hook = '', type, priority] = title.split(' ')
    const rules = texts.map((text) => ({ text }))
    const base = { type: type ?? '', hook, priority: Number(priority), ...(policy && { policy }) }
    table.chains.set(title, type === undefined ? { rules } : { base, rules })
  }
  for (const [name, elements] of Object.entries(sets))
    table.sets.set(name, { type: 'any', flags: [], elements: new Set(elements) })
  for (const [name, elements] of Object.entries(maps))
    table.maps.set(name, { type: 'any', elements: new Map(Object.entries(elements)) })
  return { ...madeNode({}), nftables: [table] }
}

/** The result for a Pod's packet to a Service if this is the only rule before FORWARD. */
const endAt = (rule: string, options: Parameters<typeof nodeWith>[1] = {}, to = '10.96.0.7:80') => {
  const state = nodeWith(
    {
      'prerouting nat -100': [rule, 'drop'],
      marked: ['meta mark & 0x00004000 == 0x00004000 accept', 'drop'],
    },
    options,
  )
  const { verdict, outcomes } = trace(state, pod, to)
  return outcomes.length > 0
    ? outcomes.map(({ to: end, probability }) => `${end} ${probability}`).join()
    : verdict
}

describe('one rule', () => {
  const SAME = '10.96.0.7:80 1'
  test.each([
    ['ip daddr 10.96.0.0/16 accept', SAME],
    ['ip daddr { 10.96.0.1-10.96.0.9, 192.0.2.0/24 } accept', SAME],
    ['ip daddr != 10.96.0.7 accept', 'drop'],
    ['ip saddr 10.244.1.9 tcp dport { 80, 443 } accept', SAME],
    ['tcp dport 81-90 accept', 'drop'],
    ['tcp dport > 79 tcp dport <= 80 accept', SAME],
    ['udp dport 80 accept', 'drop'],
    ['meta l4proto { tcp, udp } th dport 80 accept', SAME],
    ['ip protocol tcp accept', SAME],
    ['ip6 daddr ::1 accept', 'drop'],
    ['iifname "cni*" accept', SAME],
    ['iifname "eth0" accept', 'drop'],
    ['ct state established,related accept', 'drop'],
    ['ct state new,related accept', SAME],
    ['ct status dnat accept', 'drop'],
    ['ct original ip daddr 10.96.0.7 ct direction original accept', SAME],
    ['fib daddr type unicast accept', SAME],
    ['fib daddr . iif type local accept', 'drop'],
    ['meta mark set 0x00004000 goto marked', SAME],
    ['meta mark set meta mark | 0x00004000 jump marked', SAME],
    ['meta mark set meta mark ^ 0x00008000 jump marked', 'drop'],
    ['counter packets 1 bytes 60 log prefix "x y" accept comment "a b"', SAME],
    ['reject with icmp type host-unreachable', 'reject'],
    ['reject with icmp admin-prohibited', 'reject'],
    ['reject with tcp reset', 'reject'],
    ['reject', 'reject'],
    ['dnat to 10.244.2.9:8080', '10.244.2.9:8080 1'],
    ['dnat to 10.244.2.9', '10.244.2.9:80 1'],
    ['redirect to :8080', '10.244.1.1:8080 1'],
    ['redirect to :8080-8090', '10.244.1.1:8080 1'],
    ['redirect', '10.244.1.1:80 1'],
    ['dnat to 10.244.2.9-10.244.2.12:8080-8090 persistent', '10.244.2.9:8080 1'],
    ['dnat to ip daddr map { 10.96.0.7 : 10.244.2.9 }', '10.244.2.9:80 1'],
    ['dnat to ip daddr map { 10.96.0.8 : 10.244.2.9 }', 'drop'],
    [
      'dnat ip to numgen random mod 2 map { 0 : 10.244.2.9 . 80, 1 : 10.244.2.8 . 81 }',
      '10.244.2.9:80 0.5,10.244.2.8:81 0.5',
    ],
    ['numgen random mod 4 vmap { 0 : accept }', '10.96.0.7:80 0.25'],
    ['numgen inc mod 2 offset 1 vmap { 1 : accept, 2 : drop }', '10.96.0.7:80 0.5'],
    ['jhash ip saddr mod 2 vmap { 0 : accept, 1 : reject }', '10.96.0.7:80 0.5'],
    ['ip daddr . tcp dport vmap { 10.96.0.7 . 80 : accept }', SAME],
    ['ip daddr . meta l4proto . th dport vmap { 10.96.0.0/24 . tcp . 80-90 : accept }', SAME],
    ['ip daddr vmap { * : accept }', SAME],
    ['limit rate 10/second burst 5 packets accept', SAME],
    ['limit rate 1 kbytes/second burst 3 kbytes accept', SAME],
    ['limit rate over 1 mbytes/second accept', 'drop'],
    ['limit rate over 10/second burst 5 packets accept', 'drop'],
    ['update @seen { ip saddr timeout 10s counter } accept', SAME],
    ['update @seen { ip saddr limit rate over 10/second } accept', 'drop'],
    ['meta mark set ip daddr map { 10.96.0.7 : 0x00004000 } jump marked', SAME],
    ['meta mark set ip daddr map { 10.96.0.8 : 0x00004000 } accept', 'drop'],
    ['jump nowhere', 'drop'],
    ['socket transparent 1 accept', 'drop'],
    ['{"xt":null}', 'drop'],
  ])('%s → %s', (rule, end) => expect(endAt(rule)).toBe(end))

  test('looks up values in named sets and maps', () => {
    const options = {
      sets: { local: ['10.244.1.0/24'], seen: ['10.244.1.9'] },
      maps: { ips: { '10.96.0.7 . tcp . 80': 'goto marked' } },
    }
    expect(endAt('ip saddr @local accept', options)).toBe(SAME)
    expect(endAt('ip saddr != @seen accept', options)).toBe('drop')
    expect(endAt('ip saddr @gone accept', options)).toBe('drop')
    expect(
      endAt('meta mark set 0x00004000 ip daddr . meta l4proto . th dport vmap @ips', options),
    ).toBe(SAME)
  })
})

describe('base chains', () => {
  test('are evaluated in the order of their priorities, together with the tables of iptables; accept ends only its own base chain', () => {
    const state = nodeWith({
      'forward filter 10': ['drop'],
      'forward filter -10': ['accept'],
      'prerouting nat -90': ['dnat to 10.244.2.8:80'],
      'prerouting nat -101': ['dnat to 10.244.2.9:80'],
    })
    const { hops, verdict } = trace(state, pod, '10.96.0.7:80')
    expect(hops.map(({ chain, rule }) => `${chain}: ${rule}`)).toEqual([
      'prerouting nat -101: dnat to 10.244.2.9:80',
      'forward filter -10: accept',
      'forward filter 10: drop',
    ])
    expect(verdict).toBe('drop')
  })

  test('show each change of a rule that marks and translates', () => {
    const state = nodeWith({
      'prerouting nat -101': ['meta mark set 0x00004000 dnat to 10.244.2.9:80'],
    })
    const [step] = trace(state, pod, '10.96.0.7:80').steps.filter(({ matched }) => matched)
    expect(step?.change).toBe('mark becomes 0x4000, to 10.244.2.9:80')
  })

  test('of a dormant table meet no packet', () => {
    const state = nodeWith({ 'forward filter 0': ['drop'] })
    expect(trace(state, pod, '10.96.0.7:80').verdict).toBe('drop')
    const nftables = state.nftables?.map((table) => ({ ...table, dormant: true as const })) ?? []
    expect(trace({ ...state, nftables }, pod, '10.96.0.7:80').verdict).toBe('accept')
  })

  test('apply their policy to packets that no rule decides', () => {
    expect(
      trace(nodeWith({ 'forward filter 0': [] }, { policy: 'drop' }), pod, '10.96.0.7:80').lost[0]
        ?.rule,
    ).toBe('policy drop')
    expect(trace(nodeWith({ 'forward filter 0': [] }), pod, '10.96.0.7:80').hops).toEqual([])
  })

  test('are refused if their rules jump in a cycle', () =>
    expect(() =>
      trace(nodeWith({ 'input filter 0': ['jump a'], a: ['goto a'] }), pod, '172.18.0.3:80'),
    ).toThrow(/cycle: .* a → a/))

  test('name the last chain that an untranslated packet reached', () => {
    const place = (state: NodeState, to: string) => {
      const packet = parsePacket(pod, to)
      return stoppingPlace(tracePacket(state, packet), packet, state)
    }
    const [table] = predictedTables('web-clusterip', '1.34') as [NftTable]
    const links = madeNode({}).links.filter(({ name }) => name !== 'kube-ipvs0')
    const state = { ...madeNode({}), links, nftables: [table] }
    expect(place(state, '10.244.9.9:80')).toBe(
      'reaches the chain services and finds no element for TCP 10.244.9.9:80',
    )
    expect(place(state, '10.96.119.228:81')).toMatch(
      /^is rejected by ip kube-proxy cluster-ips-check: ip daddr @cluster-ips reject/,
    )
    table.chains.get('nat-prerouting')?.rules.pop()
    expect(place(state, '10.244.9.9:80')).toMatch(
      /^never reaches the chain services of table ip kube-proxy/,
    )
  })
})
