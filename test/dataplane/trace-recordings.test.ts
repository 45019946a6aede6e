import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { parsePacket, tracePacket } from '../../dataplane/trace.ts'
import { trace } from './made-node.ts'
import { recordedFolders, recordingPath, stateAt } from './recordings.ts'

describe('a trace through every recorded node', () => {
  const nodes = recordedFolders.map((folder) => ({ folder, state: stateAt(folder) }))
  const address = fc
    .tuple(fc.constantFrom('10.96', '172.18', '10.244', '8.8'), fc.nat(255), fc.nat(255))
    .map((parts) => parts.join('.'))

  it('has outcomes whose probabilities add up to 1 for any packet', () => {
    const port = fc.oneof(fc.integer({ min: 1, max: 65535 }), fc.constantFrom(80, 443, 53))
    const from = fc.oneof(
      fc.constant('host'),
      fc.tuple(fc.constantFrom('pod', 'external'), address).map((parts) => parts.join(':')),
    )
    const protocol = fc.constantFrom('tcp', 'udp', 'sctp')
    fc.assert(
      fc.property(fc.constantFrom(...nodes), from, address, port, protocol, ({ state }, from, to, port, protocol) => {
        const { outcomes, lost, verdict } = trace(state, from, `${to}:${port}/${protocol}`)
        const sum = [...outcomes, ...lost].reduce((total, { probability }) => total + probability, 0)
        expect(sum).toBeCloseTo(1, 9)
        expect(outcomes.length === 0).toBe(verdict === 'reject' || verdict === 'drop')
        const all = trace(state, from, `${to}:${port}/${protocol}`)
        const matching = tracePacket(state, parsePacket(from, `${to}:${port}/${protocol}`), { matchingOnly: true })
        expect(matching).toEqual({ ...all, steps: all.steps.filter(({ matched }) => matched) })
      }),
      { numRuns: 300 },
    )
  })

  it('has exactly the real servers of each virtual server as outcomes', () => {
    const servers = nodes.flatMap(({ folder, state }) =>
      state.virtualServers.map((server) => ({ folder, state, server })),
    )
    for (const { folder, state, server } of servers) {
      const to = `${server.address}:${server.port}/${server.protocol.toLowerCase()}`
      // The virtual servers of a node that was switched back to iptables mode receive no packets.
      if (
        state.iptables
          .get('nat')
          ?.get('KUBE-SERVICES')
          ?.rules.some(({ spec }) => spec.includes('KUBE-SVC-'))
      )
        continue
      // An address that no link holds (any more) leads past INPUT, where IPVS is.
      const bound = state.links.some((link) => link.addresses.some(({ address }) => address === server.address))
      if (!bound || server.address === '127.0.0.1') continue
      const { outcomes, verdict } = trace(state, 'pod:10.244.1.99', to)
      if (verdict === 'drop') continue
      // Until 1.30 KUBE-IPVS-FILTER does not let external IPs with policy Local pass, so nothing reaches their virtual servers.
      const isLocalExternal = state.ipsets
        .get('KUBE-EXTERNAL-IP-LOCAL')
        ?.members.has(`${server.address},${server.protocol.toLowerCase()}:${server.port}`)
      const filter = state.iptables.get('filter')?.get('KUBE-IPVS-FILTER')?.rules ?? []
      const passes = filter.some(({ spec }) => spec.includes('KUBE-EXTERNAL-IP-LOCAL'))
      if (isLocalExternal && filter.length > 0 && !passes) {
        expect(verdict, folder).toBe('reject')
        continue
      }
      expect(outcomes.map((outcome) => outcome.to).sort(), folder).toEqual(
        server.realServers
          .filter(({ weight }) => weight > 0)
          .map(({ address, port }) => `${address}:${port}`)
          .sort(),
      )
    }
  })
})

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
  it.each(flows)('$mode $scenario: $from → $to', (flow) => {
    const state = stateAt(`${flow.version}/${flow.mode}/${flow.scenario}`)
    const trace = tracePacket(state, parsePacket(flow.from, flow.to))
    expect(trace.verdict).toBe(flow.verdict)
    expect(trace.outcomes.map(({ to }) => to).sort()).toEqual([...flow.outcomes].sort())
    expect(trace.lost.length > 0).toBe(flow.outcomes.length === 0)
    if (flow.outcomes.length > 0) {
      expect(trace.outcomes.reduce((sum, { probability }) => sum + probability, 0)).toBeCloseTo(1, 9)
    }
    if (typeof flow.masquerade === 'boolean') {
      for (const outcome of trace.outcomes) expect(outcome.masquerade).toBe(flow.masquerade)
    }
  })
})
