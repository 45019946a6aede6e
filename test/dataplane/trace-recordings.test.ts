import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { familyOf } from '../../dataplane/ip-address.ts'
import type { VirtualServer } from '../../dataplane/ipvsadm-save.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { parsePacket, tracePacket } from '../../dataplane/trace.ts'
import { trace } from './made-node.ts'
import { recordedFolders, recordingPath, stateAt } from './recordings.ts'

describe('a trace through every recorded node', () => {
  const nodes = recordedFolders.map((folder) => ({ folder, state: stateAt(folder) }))
  const address = fc
    .tuple(fc.constantFrom('10.96', '172.18', '10.244', '8.8'), fc.nat(255), fc.nat(255))
    .map((parts) => parts.join('.'))

  test('has outcomes whose probabilities add up to 1 for any packet', () => {
    const port = fc.oneof(fc.integer({ min: 1, max: 65535 }), fc.constantFrom(80, 443, 53))
    const from = fc.oneof(
      fc.constant('host'),
      fc.tuple(fc.constantFrom('pod', 'external'), address).map((parts) => parts.join(':')),
    )
    const protocol = fc.constantFrom('tcp', 'udp', 'sctp')
    fc.assert(
      fc.property(
        fc.constantFrom(...nodes),
        from,
        address,
        port,
        protocol,
        ({ state }, from, to, port, protocol) => {
          const { outcomes, lost, verdict } = trace(state, from, `${to}:${port}/${protocol}`)
          const sum = [...outcomes, ...lost].reduce(
            (total, { probability }) => total + probability,
            0,
          )
          expect(sum).toBeCloseTo(1, 9)
          expect(outcomes.length === 0).toBe(verdict === 'reject' || verdict === 'drop')
          const all = trace(state, from, `${to}:${port}/${protocol}`)
          const matching = tracePacket(state, parsePacket(from, `${to}:${port}/${protocol}`), {
            matchingOnly: true,
          })
          expect(matching).toEqual({ ...all, steps: all.steps.filter(({ matched }) => matched) })
        },
      ),
      { numRuns: 300 },
    )
  })

  test('has exactly the real servers of each virtual server as outcomes', () => {
    const servers = nodes.flatMap(({ folder, state }) =>
      state.virtualServers
        .filter(({ address }) => familyOf(address) === 'ipv4')
        .map((server) => ({ folder, state, server, why: whyElsewhere(state, server) })),
    )
    const counts = { iptables: 0, unbound: 0, dropped: 0, rejected: 0, compared: 0 }
    for (const { folder, state, server, why } of servers) {
      const to = `${server.address}:${server.port}/${server.protocol.toLowerCase()}`
      const { outcomes, verdict } = trace(state, 'pod:10.244.1.99', to)
      if (why === undefined && verdict !== 'drop')
        expect(outcomes.map((outcome) => outcome.to).sort(), `${folder} ${to}`).toEqual(
          server.realServers
            .filter(({ weight }) => weight > 0)
            .map(({ address, port }) => `${address}:${port}`)
            .sort(),
        )
      if (why === 'rejected') expect(verdict, folder).toBe('reject')
      counts[why ?? (verdict === 'drop' ? 'dropped' : 'compared')]++
    }
    expect(counts).toMatchObject({ iptables: 29, unbound: 22 })
    expect(counts.compared).toBeGreaterThanOrEqual(3367)
  })
})

/** Why a packet from a Pod to a virtual server does not reach it. */
function whyElsewhere(
  state: NodeState,
  server: VirtualServer,
): 'iptables' | 'unbound' | 'rejected' | undefined {
  const specsOf = (table: string, chain: string) =>
    state.iptables
      .get(table)
      ?.get(chain)
      ?.rules.map(({ spec }) => spec) ?? []
  // The virtual servers of a node that was switched back to iptables mode receive no packets.
  if (specsOf('nat', 'KUBE-SERVICES').some((spec) => spec.includes('KUBE-SVC-'))) return 'iptables'
  // An address that no link has, or no longer has, leads past INPUT, where IPVS is.
  const bound = state.links.some((link) =>
    link.addresses.some(({ address }) => address === server.address),
  )
  if (!bound || server.address === '127.0.0.1') return 'unbound'
  // KUBE-IPVS-FILTER rejects what is in none of its sets: until 1.30 external IPs with policy
  // Local, and always node ports on kube-ipvs0.
  const member = `${server.address},${server.protocol.toLowerCase()}:${server.port}`
  const has = (set: string, element: string) => state.ipsets.get(set)?.members.has(element) ?? false
  const passing = specsOf('filter', 'KUBE-IPVS-FILTER').flatMap(
    (spec) => /--match-set (\S+) dst,dst -j RETURN/.exec(spec)?.[1] ?? [],
  )
  const rejects = has('KUBE-IPVS-IPS', server.address) && !passing.some((set) => has(set, member))
  return rejects ? 'rejected' : undefined
}

const flows = z
  .array(
    z.object({
      mode: z.string(),
      version: z.string(),
      scenario: z.string(),
      from: z.string(),
      to: z.string(),
      verdict: z.string(),
      outcomes: z.array(z.string()),
      masquerade: z.boolean().nullish(),
    }),
  )
  .parse(JSON.parse(readFileSync(recordingPath('flows.json'), 'utf8')))

describe('a trace has the destinations of real packets', () => {
  test.each(flows)('$mode $scenario: $from → $to', (flow) => {
    const state = stateAt(`${flow.version}/${flow.mode}/${flow.scenario}`)
    const trace = tracePacket(state, parsePacket(flow.from, flow.to))
    expect(trace.verdict).toBe(flow.verdict)
    expect(trace.outcomes.map(({ to }) => to).sort()).toEqual([...flow.outcomes].sort())
    expect(trace.lost.length > 0).toBe(flow.outcomes.length === 0)
    if (flow.outcomes.length > 0) {
      expect(trace.outcomes.reduce((sum, { probability }) => sum + probability, 0)).toBeCloseTo(
        1,
        9,
      )
    }
    if (typeof flow.masquerade === 'boolean') {
      for (const outcome of trace.outcomes) expect(outcome.masquerade).toBe(flow.masquerade)
    }
  })
})
