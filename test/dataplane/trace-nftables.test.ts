// Traces through kube-proxy's nftables tables, beside what this machine's kernel did with the same rules and packets.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { withoutSingleBraces } from '../../dataplane/nft-address-set.ts'
import { type NftTable, printNftTable } from '../../dataplane/nft-table.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { predict } from '../../dataplane/predict.ts'
import { stoppingPlace } from '../../dataplane/trace/stopping-place.ts'
import { parsePacket, type Trace, tracePacket } from '../../dataplane/trace.ts'
import { NODE, objectsAt, recordedConfig } from './kube-proxy/recordings.ts'
import { node as madeNode, pod, trace } from './made-node.ts'
import { NftNode, type Observed, whyNot } from './nft-kernel.ts'

const SENDERS = {
  client: { net: 'client', from: 'pod:10.244.1.99' },
  web: { net: 'web1', from: 'pod:10.244.1.6' },
  host: { net: 'node', from: 'host' },
  outside: { net: 'outside', from: 'external:172.18.0.1' },
  stranger: { net: 'outside', from: 'external:203.0.113.9', source: '203.0.113.9' },
} as const

const CLUSTER_IP = '10.96.119.228:80'
const BALANCER = '172.18.255.200:80'
const node = (port: number) => `172.18.0.3:${port}`
const anybody = (to: string) => [`client ${to}`, `host ${to}`, `outside ${to}`]

/** By scenario: who sends to where. After \`silent\`, nobody at the far end answers. */
const FLOWS: Record<string, string[]> = {
  'web-clusterip': [
    ...anybody(CLUSTER_IP),
    `web ${CLUSTER_IP}`,
    ...anybody('10.96.119.228:81'),
    ...anybody('10.96.0.10:53/udp'),
    'client 10.96.0.10:9153',
    'client 10.96.250.250:80 silent',
    'host 10.96.250.250:80 silent',
    'client 10.244.2.4:80',
    'outside 10.244.1.6:80',
    `client ${node(9)}`,
  ],
  'web-three-endpoints': [`client ${CLUSTER_IP}`, `web ${CLUSTER_IP}`, `stranger ${CLUSTER_IP}`],
  'web-external-ip': anybody('192.0.2.10:80'),
  'web-lb': [...anybody(BALANCER), ...anybody(node(31428)), `stranger ${BALANCER}`, `web ${BALANCER}`],
  'web-lb-source-ranges': [...anybody(BALANCER), `stranger ${BALANCER}`, ...anybody(node(31428))],
  'x-lb-ranges-with-node': [...anybody(BALANCER), `stranger ${BALANCER}`],
  'x-lb-ranges-all': anybody(BALANCER),
  'web-lb-local': [...anybody(BALANCER), `stranger ${BALANCER}`, `stranger ${node(31428)}`],
  'web-nodeport': [...anybody(node(31730)), `web ${node(31730)}`, `stranger ${node(31730)}`, 'host 127.0.0.1:31730'],
  'web-nodeport-local': [...anybody(node(31730)), `web ${node(31730)}`, `stranger ${node(31730)}`],
  'web-no-endpoints': anybody(CLUSTER_IP),
  'x-nodeport-no-endpoints': [...anybody(CLUSTER_IP), ...anybody(node(31730))],
  'x-both-local-elsewhere': [...anybody(CLUSTER_IP), ...anybody(node(31730))],
  'web-itp-local': [...anybody(CLUSTER_IP), `web ${CLUSTER_IP}`],
  'web-terminating': [`client ${CLUSTER_IP}`],
  'web-affinity': [
    `client ${CLUSTER_IP} once`,
    `client ${CLUSTER_IP}`,
    `host ${CLUSTER_IP} once`,
    `host ${CLUSTER_IP}`,
  ],
  'x-affinity-nodeport-local': [`stranger ${node(31730)} once`, `stranger ${node(31730)}`],
}

/** A branch of a choice among three is left out in 24 connections once in ten thousand runs. */
const ENOUGH = 24

interface Sent {
  name: string
  trace: Trace
  observed: Observed
  once: boolean
  silent: boolean
  source: string | undefined
}

const LAYOUTS = ['1.31', '1.34', '1.36']
const tablesOf = (scenario: string, version: string) => {
  const options = { node: NODE, mode: 'nftables', version, config: recordedConfig() } as const
  const { nftables = [] } = predict(objectsAt('objects', `${scenario}.json`), options)
  return nftables.filter(({ family }) => family === 'ip')
}

const endsOf = ({ verdict, outcomes, lost }: Trace) => ({ verdict, outcomes, lost: lost.map((one) => one.verdict) })

async function sendAll(kernel: NftNode, scenario: string, version: string): Promise<Sent[]> {
  const tables = tablesOf(scenario, version)
  await kernel.load(tables.map(printNftTable).join(''))
  const sent: Sent[] = []
  for (const flow of FLOWS[scenario] ?? []) {
    const [who = '', to = '', how] = flow.split(' ')
    const sender: { net: string; from: string; source?: string } = SENDERS[who as keyof typeof SENDERS]
    const state = await kernel.read()
    const packet = parsePacket(sender.from, to)
    const trace = tracePacket(state, packet)
    if (!scenario.includes('affinity')) {
      const predicted: NodeState = { ...state, nftables: tables }
      expect({ flow, ...endsOf(tracePacket(predicted, packet)) }).toEqual({ flow, ...endsOf(trace) })
    }
    const isAnswered = trace.outcomes.length > 0 && how !== 'silent'
    const count = isAnswered && how !== 'once' && trace.outcomes.length > 1 ? ENOUGH : 1
    const timeoutSeconds = isAnswered || trace.verdict === 'reject' ? 5 : 0.2
    const observed = await kernel.send(sender.net, packet, {
      count,
      timeoutSeconds,
      ...(sender.source && { source: sender.source }),
    })
    const source = packet.from === 'host' ? undefined : packet.source
    sent.push({
      name: `${version} ${scenario}: ${flow}`,
      trace,
      observed,
      once: how === 'once',
      silent: how === 'silent',
      source,
    })
  }
  return sent
}

/** What is wrong between a trace and what its packets did; undefined for a trace that is right. */
function faultsOf({ name, trace, observed, once, silent, source }: Sent): object | undefined {
  const faults: Record<string, unknown> = {}
  const hops = trace.hops.filter(({ table }) => table === 'ip kube-proxy')
  const named = new Set(hops.map(({ chain, rule }) => withoutSingleBraces(`${chain} ${rule}`)))
  const matched = new Set([...observed.matched].map(withoutSingleBraces))
  const unnamed = [...matched].filter((rule) => !named.has(rule))
  const unmatched = [...named].filter((rule) => !matched.has(rule))
  if (unnamed.length > 0) faults.unnamed = unnamed
  if (unmatched.length > 0 && !once) faults.unmatched = unmatched
  const seen = new Set(observed.answers.map((answer) => answer.split(' ')[0] ?? ''))
  const ends = trace.outcomes.map(({ to }) => to.split(':')[0] ?? '')
  const wanted = silent
    ? [...seen]
    : { reject: ['refused'], drop: ['timeout'], dnat: ends, accept: ends }[trace.verdict]
  const isRefusedByNode = trace.verdict === 'accept' && seen.has('refused')
  const same = once
    ? [...seen].every((end) => wanted.includes(end))
    : [...seen].sort().join() === [...new Set(wanted)].sort().join()
  if (!same && !isRefusedByNode) faults.seen = { answers: [...seen], wanted }
  for (const answer of observed.answers) {
    const [at, client] = answer.split(' ')
    const outcome = trace.outcomes.find(({ to }) => to.split(':')[0] === at)
    if (source && outcome && outcome.masquerade !== (client !== source)) faults.client = answer
  }
  return Object.keys(faults).length === 0 ? undefined : { name, ...faults }
}

const reason = whyNot()

describe.skipIf(reason !== undefined)(
  `beside a kernel${reason === undefined ? '' : `, not applicable here: ${reason}`}`,
  () => {
    let kernel: NftNode
    beforeAll(() => {
      kernel = new NftNode()
    })
    afterAll(() => kernel?.stop())

    it.each(LAYOUTS)('%s: the rules that match and the ends of real packets', async (version) => {
      const sent: Sent[] = []
      for (const scenario of Object.keys(FLOWS)) sent.push(...(await sendAll(kernel, scenario, version)))
      expect(sent.map(faultsOf).filter((faults) => faults !== undefined)).toEqual([])
      expect(sent.length).toBeGreaterThanOrEqual(40)
      expect(new Set(sent.map(({ trace }) => trace.verdict))).toEqual(new Set(['dnat', 'accept', 'reject', 'drop']))
      // A trace that leaves out a rule, names one too many, or another end is found out.
      const [one] = sent as [Sent, ...Sent[]]
      const { hops, outcomes } = one.trace
      const extra = { ...hops[0], table: 'ip kube-proxy', rule: 'drop' } as Trace['hops'][number]
      for (const wrong of [{ hops: hops.slice(1) }, { hops: [...hops, extra] }, { outcomes: outcomes.slice(1) }])
        expect(faultsOf({ ...one, trace: { ...one.trace, ...wrong } })).toBeDefined()
      console.log(`nftables ${version}: ${sent.length} flows`)
    })
  },
)

/** A node with one table: rules by base chain (`prerouting nat -100`) or other chain, and the elements of sets and maps. */
function nodeWith(
  chains: Record<string, string[]>,
  {
    sets = {},
    maps = {},
    policy,
  }: { sets?: Record<string, string[]>; maps?: Record<string, Record<string, string>>; policy?: 'drop' } = {},
): NodeState {
  const table: NftTable = { family: 'ip', name: 'kube-proxy', chains: new Map(), sets: new Map(), maps: new Map() }
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

/** Where a Pod's packet to a Service ends that meets only this rule before it is forwarded. */
const endAt = (rule: string, options: Parameters<typeof nodeWith>[1] = {}, to = '10.96.0.7:80') => {
  const state = nodeWith(
    { 'prerouting nat -100': [rule, 'drop'], marked: ['meta mark & 0x00004000 == 0x00004000 accept', 'drop'] },
    options,
  )
  const { verdict, outcomes } = trace(state, pod, to)
  return outcomes.length > 0 ? outcomes.map(({ to: end, probability }) => `${end} ${probability}`).join() : verdict
}

describe('one rule', () => {
  const SAME = '10.96.0.7:80 1'
  it.each([
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
    ['reject', 'reject'],
    ['dnat to 10.244.2.9:8080', '10.244.2.9:8080 1'],
    ['dnat to 10.244.2.9', '10.244.2.9:80 1'],
    ['redirect to :8080', '10.244.1.1:8080 1'],
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
    ['jump nowhere', 'drop'],
    ['socket transparent 1 accept', 'drop'],
    ['{"xt":null}', 'drop'],
  ])('%s → %s', (rule, end) => expect(endAt(rule)).toBe(end))

  it('looks into named sets and maps', () => {
    const options = {
      sets: { local: ['10.244.1.0/24'], seen: ['10.244.1.9'] },
      maps: { ips: { '10.96.0.7 . tcp . 80': 'goto marked' } },
    }
    expect(endAt('ip saddr @local accept', options)).toBe(SAME)
    expect(endAt('ip saddr != @seen accept', options)).toBe('drop')
    expect(endAt('ip saddr @gone accept', options)).toBe('drop')
    expect(endAt('meta mark set 0x00004000 ip daddr . meta l4proto . th dport vmap @ips', options)).toBe(SAME)
  })
})

describe('base chains', () => {
  it('run in the order of priorities, between the tables of iptables, and what accepts ends only its own chain', () => {
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

  it('have a policy', () => {
    expect(trace(nodeWith({ 'forward filter 0': [] }, { policy: 'drop' }), pod, '10.96.0.7:80').lost[0]?.rule).toBe(
      'policy drop',
    )
    expect(trace(nodeWith({ 'forward filter 0': [] }), pod, '10.96.0.7:80').hops).toEqual([])
  })

  it('cannot lead in a circle', () =>
    expect(() => trace(nodeWith({ 'input filter 0': ['jump a'], a: ['goto a'] }), pod, '172.18.0.3:80')).toThrow(
      /circle: .* a → a/,
    ))

  it('say where a packet got to that they do not translate', () => {
    const place = (state: NodeState, to: string) => {
      const packet = parsePacket(pod, to)
      return stoppingPlace(tracePacket(state, packet), packet, state)
    }
    const [table] = tablesOf('web-clusterip', '1.34') as [NftTable]
    const links = madeNode({}).links.filter(({ name }) => name !== 'kube-ipvs0')
    const state = { ...madeNode({}), links, nftables: [table] }
    expect(place(state, '10.244.9.9:80')).toBe('reaches the chain services and finds no element for TCP 10.244.9.9:80')
    expect(place(state, '10.96.119.228:81')).toMatch(
      /^is rejected by ip kube-proxy cluster-ips-check: ip daddr @cluster-ips reject/,
    )
    table.chains.get('nat-prerouting')?.rules.pop()
    expect(place(state, '10.244.9.9:80')).toMatch(/^never reaches the chain services of table ip kube-proxy/)
  })
})
