import type { Finding } from '../compare/finding.ts'
import type { Ruleset } from '../iptables-save.ts'
import type { NodeState } from '../node-state.ts'
import { targetOf } from '../rule-text.ts'
import { CircleError, type Packet, PacketError, tracePacket } from '../trace.ts'
import { readMark } from './matches.ts'

/** Targets that stop a packet, send it elsewhere, or take it out of connection tracking. */
const TAKING = new Set(['DROP', 'REJECT', 'TARPIT', 'DNAT', 'REDIRECT', 'TPROXY', 'NOTRACK', 'CT', 'MARK', 'TTL', 'HL'])

const isForeign = (chain: string): boolean => !chain.startsWith('KUBE-')

/** Without a foreign rule that could take a packet there is nothing to trace. */
const hasSuspects = (rules: Ruleset): boolean =>
  [...rules.values()].some((table) =>
    [...table.values()].some(
      (chain) =>
        isForeign(chain.name) &&
        (chain.policy === 'DROP' || chain.rules.some(({ spec }) => TAKING.has(targetOf(spec) ?? ''))),
    ),
  )

/** True of a rule that a packet met and that decides what becomes of it, in place of kube-proxy's rules. */
function isTaking(hook: string, rule: string, masqueradeMark: number): boolean {
  const target = targetOf(rule)
  if (target === 'CT') return rule.includes('--notrack')
  if (target === 'TTL' || target === 'HL') return /--(?:ttl|hl)-set [01]\b/.test(rule)
  if (target !== 'MARK') return target !== undefined && TAKING.has(target)
  const [bits, mask] = readMark(/--(?:set-x?|x?or-)mark (\S+)/.exec(rule)?.[1] ?? '0/0')
  // Before nat PREROUTING a mark that is cleared is set again; behind it the connection is masqueraded no more.
  const isLate = hook !== 'PREROUTING' && hook !== 'OUTPUT'
  return ((isLate ? bits | mask : bits) & masqueradeMark) !== 0
}

/**
 * Rules that are not kube-proxy's and take Service packets: the first packet of each connection is walked through what the node
 * holds, and a foreign rule that stops it, translates it, or changes its tracking or its masquerade mark is a finding, also
 * where it does so to a part of the connections only (`-m statistic`, `-m limit`). What firewalls and container engines write
 * for their own networks is met by none of these packets.
 * @param packets first packets of connections that have to reach a Service
 * @param masqueradeBit kube-proxy's bit of the fwmark
 */
export function findInterference(state: NodeState, packets: readonly Packet[], masqueradeBit: number): Finding[] {
  if (!hasSuspects(state.iptables)) return []
  const found = new Map<string, Finding>()
  for (const packet of packets) {
    for (const { table, chain, rule, hook, verdict } of hopsOf(state, packet)) {
      const isPolicy = rule.startsWith('-P ')
      if (!isForeign(chain) || !(isPolicy ? verdict === 'DROP' : isTaking(hook, rule, 2 ** masqueradeBit))) continue
      const key = `${table} ${chain} ${rule}`
      if (found.has(key)) continue
      const to = `${packet.destination}:${packet.port}/${packet.protocol}`
      const what = isPolicy ? 'its policy' : "a rule that is not kube-proxy's"
      const text = `${table} ${chain}: ${what} (${verdict}) takes packets to ${to}`
      found.set(key, { kind: 'stale', where: { table, chain }, actual: rule, text, interferes: true })
    }
  }
  return [...found.values()]
}

function hopsOf(state: NodeState, packet: Packet) {
  try {
    return tracePacket(state, packet, { matchingOnly: true }).hops
  } catch (error) {
    // A packet that the node cannot have meets no rule; the comparison reports chains in a circle.
    if (error instanceof PacketError || error instanceof CircleError) return []
    throw error
  }
}
