import type { Difference } from '../compare/difference.ts'
import { nftTitle } from '../nft-table.ts'
import type { NodeState } from '../node-state.ts'
import { targetOf } from '../rule.ts'
import { CircleError, type Packet, PacketError, tracePacket } from '../trace.ts'
import { readMark } from './judge-rule.ts'
import { REFUSING, ROUTES } from './kernel-path.ts'
import type { TraceStep } from './step.ts'

/** Targets that stop a packet, redirect it, or exclude it from connection tracking. */
const TAKING = new Set([
  'DROP',
  'REJECT',
  'TARPIT',
  'DNAT',
  'REDIRECT',
  'TPROXY',
  'NOTRACK',
  'CT',
  'MARK',
  'TTL',
  'HL',
])

const isForeign = (chain: string): boolean => !chain.startsWith('KUBE-')

/** Without a foreign rule that could affect a packet, nothing needs to be traced. */
function hasSuspects({ iptables, foreignNftables = [], routes = [] }: NodeState): boolean {
  if (routes.some(({ type }) => REFUSING.has(type))) return true
  const chains = [...iptables.values()]
    .flatMap((table) => [...table.values()])
    .filter(({ name }) => isForeign(name))
  if (
    chains.some(
      ({ policy, rules }) =>
        policy === 'DROP' || rules.some(({ spec }) => TAKING.has(targetOf(spec) ?? '')),
    )
  )
    return true
  return foreignNftables
    .filter(({ dormant }) => !dormant)
    .flatMap((table) => [...table.chains.values()])
    .some(
      ({ base, rules }) =>
        base?.policy === 'drop' || rules.some(({ text }) => NFT_TAKING.test(text)),
    )
}

const NFT_TAKING = /\b(?:drop|reject|dnat|redirect|notrack|tproxy|queue|meta mark set)\b/
const NFT_MARK = /\bmeta mark set\b/

/** True for a matching rule that determines the packet's path instead of kube-proxy's rules. */
function isTakingNft({ hook, rule, verdict, reason }: TraceStep, masqueradeMark: number): boolean {
  if (TAKING.has(verdict) || reason.includes('not tracked')) return true
  // The rule may change more after the mark.
  const mark = /(?<!connection )mark becomes (0x[0-9a-f]+)/.exec(reason)?.[1]
  const isLate = hook !== 'PREROUTING' && hook !== 'OUTPUT'
  // A mark that is cleared before nat PREROUTING is set again there.
  return (
    mark !== undefined && NFT_MARK.test(rule) && (isLate || (Number(mark) & masqueradeMark) !== 0)
  )
}

/** The same for a rule of iptables. */
function isTaking(hook: string, rule: string, masqueradeMark: number): boolean {
  const target = targetOf(rule)
  if (target === 'CT') return rule.includes('--notrack')
  if (target === 'TTL' || target === 'HL') return /--(?:ttl|hl)-set [01]\b/.test(rule)
  if (target !== 'MARK') return target !== undefined && TAKING.has(target)
  const [bits, mask] = readMark(/--(?:set-x?|x?or-)mark (\S+)/.exec(rule)?.[1] ?? '0/0')
  // A mark that is cleared before nat PREROUTING is set again; after it, the connection is no
  // longer masqueraded.
  const isLate = hook !== 'PREROUTING' && hook !== 'OUTPUT'
  return ((isLate ? bits | mask : bits) & masqueradeMark) !== 0
}

/**
 * Finds foreign rules that affect packets for Services: the first packet of each connection is
 * traced, and a rule that does not belong to kube-proxy is reported if it stops or translates the
 * packet, or changes its tracking or masquerade mark, even for a part of the connections
 * (`-m statistic`, `-m limit`). Rules of firewalls and container engines for their own networks do
 * not match these packets.
 * @param packets first packets of connections that must reach a Service
 * @param masqueradeBit kube-proxy's bit of the fwmark
 */
export function findInterference(
  state: NodeState,
  packets: readonly Packet[],
  masqueradeBit: number,
): Difference[] {
  const others = state.foreignNftables ?? []
  if (!hasSuspects(state)) return []
  const foreignTables = new Set(others.map(nftTitle))
  const masqueradeMark = 2 ** masqueradeBit
  const found = new Map<string, Difference>()
  for (const packet of packets) {
    for (const step of stepsOf(state, packet)) {
      const key = `${step.table} ${step.chain} ${step.rule}`
      if (found.has(key)) continue
      const isNft = foreignTables.has(step.table)
      const origin = originOf(step, isNft)
      if (!origin || !isInterfering(step, origin, isNft, masqueradeMark)) continue
      found.set(key, interferenceOf(step, origin, isNft, packet))
    }
  }
  return [...found.values()]
}

/** What of a node's configuration a step of a trace comes from; undefined for kube-proxy's own. */
function originOf({ table, chain, rule }: TraceStep, isNft: boolean) {
  if (!isNft && (table === 'ipvs' || table.includes(' ') || !isForeign(chain))) return undefined
  if (table === ROUTES) return 'route'
  return rule.startsWith(isNft ? 'policy ' : '-P ') ? 'policy' : 'rule'
}

type Origin = NonNullable<ReturnType<typeof originOf>>

function isInterfering(
  step: TraceStep,
  origin: Origin,
  isNft: boolean,
  masqueradeMark: number,
): boolean {
  if (origin !== 'rule') return step.verdict === 'DROP' || step.verdict === 'REJECT'
  return isNft ? isTakingNft(step, masqueradeMark) : isTaking(step.hook, step.rule, masqueradeMark)
}

function interferenceOf(
  step: TraceStep,
  origin: Origin,
  isNft: boolean,
  packet: Packet,
): Difference {
  const { table, chain, rule } = step
  const what = {
    route: `the route "${rule}"`,
    policy: 'its policy',
    rule: "a rule that is not kube-proxy's",
  }[origin]
  const to = `${packet.destination}:${packet.port}/${packet.protocol}`
  const text = `${table} ${chain}: ${what} ${effectOf(step)} packets to ${to}`
  const where = isNft ? { nft: table, part: `chain ${chain}` } : { table, chain }
  return { kind: 'stale', where, actual: rule, text, interferes: true }
}

/** What a step does with packets: a rule without a final verdict changes them. */
function effectOf({ rule, verdict, reason }: TraceStep): string {
  if (/NOTRACK|--notrack|\bnotrack\b|not tracked/.test(`${rule} ${reason}`))
    return '(NOTRACK) stops the tracking of'
  if (verdict === 'MARK' || /-j MARK\b|\bmeta mark set\b/.test(rule))
    return '(MARK) changes the mark of'
  if (/-j (?:TTL|HL)\b/.test(rule)) return '(TTL) ends the life of'
  return `(${verdict}) takes`
}

function stepsOf(state: NodeState, packet: Packet): TraceStep[] {
  try {
    return tracePacket(state, packet, { matchingOnly: true }).steps
  } catch (error) {
    // A packet that the node cannot have matches no rule; the comparison reports chains in a cycle.
    if (error instanceof PacketError || error instanceof CircleError) return []
    throw error
  }
}
