// What this machine's kernel does with kube-proxy's nftables rules and real packets, beside the
// traces through the same rules.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { KubeProxyConfig } from '../../dataplane/kube-proxy/config.ts'
import { featuresOf } from '../../dataplane/kube-proxy/versions.ts'
import { printNftTable, printNftTransactions } from '../../dataplane/nft-transaction.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { predict } from '../../dataplane/predict.ts'
import { parsePacket, type Trace, tracePacket } from '../../dataplane/trace.ts'
import { NftNode, type Observed, refusedScripts, whyNot } from './nft-kernel.ts'
import { configOf, NODE, objectsAt, predictedTables, recordedScenarios } from './recordings.ts'

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

/** By scenario: who sends to where. With \`silent\`, no machine at the far end answers. */
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
  'web-lb': [
    ...anybody(BALANCER),
    ...anybody(node(31428)),
    `stranger ${BALANCER}`,
    `web ${BALANCER}`,
  ],
  'web-lb-source-ranges': [...anybody(BALANCER), `stranger ${BALANCER}`, ...anybody(node(31428))],
  'x-lb-ranges-with-node': [...anybody(BALANCER), `stranger ${BALANCER}`],
  'x-lb-ranges-all': anybody(BALANCER),
  'web-lb-local': [...anybody(BALANCER), `stranger ${BALANCER}`, `stranger ${node(31428)}`],
  'web-nodeport': [
    ...anybody(node(31730)),
    `web ${node(31730)}`,
    `stranger ${node(31730)}`,
    'host 127.0.0.1:31730',
  ],
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
const endsOf = ({ verdict, outcomes, lost }: Trace) => ({
  verdict,
  outcomes,
  lost: lost.map((one) => one.verdict),
})

/** How many packets show all ends of a trace, and how long a reply to one takes at most. */
function patienceFor({ outcomes, verdict }: Trace, how: string | undefined) {
  const isAnswered = outcomes.length > 0 && how !== 'silent'
  return {
    count: isAnswered && how !== 'once' && outcomes.length > 1 ? ENOUGH : 1,
    timeoutSeconds: isAnswered || verdict === 'reject' ? 5 : 0.2,
  }
}

async function sendAll(kernel: NftNode, scenario: string, version: string): Promise<Sent[]> {
  const tables = predictedTables(scenario, version)
  await kernel.load(tables.map(printNftTable).join(''))
  const sent: Sent[] = []
  let state = await kernel.read()
  for (const flow of FLOWS[scenario] ?? []) {
    const [who = '', to = '', how] = flow.split(' ')
    const sender: { net: string; from: string; source?: string } =
      SENDERS[who as keyof typeof SENDERS]
    const packet = parsePacket(sender.from, to)
    // Connections change only the sets of session affinity.
    if (scenario.includes('affinity')) state = await kernel.read()
    const trace = tracePacket(state, packet)
    if (!scenario.includes('affinity')) {
      const predicted: NodeState = { ...state, nftables: tables }
      expect({ flow, ...endsOf(tracePacket(predicted, packet)) }).toEqual({
        flow,
        ...endsOf(trace),
      })
    }
    const observed = await kernel.send(sender.net, packet, {
      ...patienceFor(trace, how),
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

/** nft prints a set of one member with or without braces, depending on how the rule was written. */
const withoutSingleBraces = (text: string): string => text.replace(/\{ ([^{},:]+) \}/g, '$1')

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

/**
 * The scripts of a scenario in mode nftables; none where kube-proxy's own are refused, which its
 * prediction says.
 */
function scriptsOf(
  scenario: string,
  version: string,
  change: Partial<KubeProxyConfig> = {},
): string[] {
  const objects = objectsAt('objects', `${scenario}.json`)
  const config = { ...configOf(objects), ...change }
  const options = { node: NODE, mode: 'nftables', version, config } as const
  if (config.detectLocalMode === 'InterfaceNamePrefix' && !featuresOf(version).nftInterfaceName) {
    expect(() => predict(objects, options)).toThrow(/programs nothing in mode nftables/)
    return []
  }
  const { nftables = [] } = predict(objects, options)
  return nftables.map((table) => printNftTransactions(undefined, table).join(''))
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

    test.each(['1.31', '1.32', '1.33', '1.34.1', '1.34.2', '1.35', '1.36'])(
      '%s: the kernel takes every script that the model writes',
      (version) => {
        const scripts = recordedScenarios().flatMap((scenario) => scriptsOf(scenario, version))
        expect(scripts.length).toBeGreaterThanOrEqual(70)
        expect(refusedScripts(scripts)).toEqual([])
        const byPrefix = {
          detectLocalMode: 'InterfaceNamePrefix',
          interfaceNamePrefix: 'veth',
        } as const
        const prefixed = scriptsOf('web-clusterip', version, byPrefix)
        expect(prefixed).toHaveLength(featuresOf(version).nftInterfaceName ? 2 : 0)
        expect(refusedScripts(prefixed)).toEqual([])
        const [first = ''] = scripts
        expect(
          refusedScripts([first, `${first}add rule ip kube-proxy services iif "veth*" drop`]),
        ).toEqual(['2'])
      },
    )

    test.each(LAYOUTS)(
      '%s: a trace has the matching rules and the destinations of real packets',
      async (version) => {
        const sent: Sent[] = []
        for (const scenario of Object.keys(FLOWS))
          sent.push(...(await sendAll(kernel, scenario, version)))
        expect(sent.map(faultsOf).filter((faults) => faults !== undefined)).toEqual([])
        expect(sent.length).toBeGreaterThanOrEqual(40)
        expect(new Set(sent.map(({ trace }) => trace.verdict))).toEqual(
          new Set(['dnat', 'accept', 'reject', 'drop']),
        )
        // A trace that leaves out a rule, names one too many, or another end is found out.
        const [one] = sent as [Sent, ...Sent[]]
        const { hops, outcomes } = one.trace
        const extra = { ...hops[0], table: 'ip kube-proxy', rule: 'drop' } as Trace['hops'][number]
        for (const wrong of [
          { hops: hops.slice(1) },
          { hops: [...hops, extra] },
          { outcomes: outcomes.slice(1) },
        ])
          expect(faultsOf({ ...one, trace: { ...one.trace, ...wrong } })).toBeDefined()
        console.log(`nftables ${version}: ${sent.length} flows`)
      },
    )
  },
)
