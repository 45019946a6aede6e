import { contains } from '../ip-address.ts'
import type { ParsedRule } from '../rule.ts'
import type { Flow } from './flow.ts'
import { allOf, type Condition, isProtocol, type Judgement, judged, judgeMatch, type TraceContext } from './matches.ts'

/**
 * The probability that a rule matches the packet, with the reason: the first field or match that fails
 * decides.
 */
export function judgeRule(rule: ParsedRule, flow: Flow, context: TraceContext): Judgement {
  const judgements: Judgement[] = []
  const isRefutedBy = (judgement: Judgement) => {
    judgements.push(judgement)
    return judgement.chance === 0
  }
  for (const [name, condition] of FIELDS) {
    const field = rule[name]
    if (!field) continue
    const [holds, fact] = condition(field.value, flow, [])
    if (isRefutedBy(judged(holds, field.negated, fact))) return allOf(judgements)
  }
  if (rule.fragment && isRefutedBy(judged(false, rule.fragment.negated, 'it is not a fragment')))
    return allOf(judgements)
  rule.matches.some((match) => isRefutedBy(judgeMatch(match, flow, context)))
  return allOf(judgements)
}

/**
 * True for a rule with another destination, without computing a reason: most evaluated rules are for other
 * Services.
 */
export function isForOther({ destination }: ParsedRule, flow: Flow): boolean {
  return destination !== undefined && contains(destination.value, flow.destination) === destination.negated
}

/** The conditions of a rule besides its matches, in the order of iptables-save. */
const FIELDS: readonly [
  field: 'source' | 'destination' | 'inInterface' | 'outInterface' | 'protocol',
  condition: Condition,
][] = [
  ['source', (prefix, { source }) => [contains(prefix, source), `source is ${source}`]],
  ['destination', (prefix, { destination }) => [contains(prefix, destination), `destination is ${destination}`]],
  ['inInterface', (name, { inInterface }) => [isInterface(name, inInterface), `came in by ${inInterface ?? 'none'}`]],
  [
    'outInterface',
    (name, { outInterface }) => [isInterface(name, outInterface), `leaves by ${outInterface ?? 'none'}`],
  ],
  ['protocol', (name, { protocol }) => [isAny(name) || isProtocol(name, protocol), `protocol is ${protocol}`]],
]

const isAny = (protocol: string): boolean => protocol === 'all' || protocol === '0'

/** `eth0`, or `veth+` for every name with this prefix. */
function isInterface(pattern: string, name: string | undefined): boolean {
  if (pattern === '+') return true
  return pattern.endsWith('+') ? (name ?? '').startsWith(pattern.slice(0, -1)) : pattern === name
}
