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
  for (const judgement of judgementsOf(rule, flow, context)) {
    if (judgement.chance === 0) return judgement
    judgements.push(judgement)
  }
  return allOf(judgements)
}

function* judgementsOf(rule: ParsedRule, flow: Flow, context: TraceContext): Generator<Judgement> {
  for (const [name, condition] of FIELDS) {
    const field = rule[name]
    if (!field) continue
    const [holds, fact] = condition(field.value, flow, [])
    yield judged(holds, field.negated, fact)
  }
  if (rule.fragment) yield judged(false, rule.fragment.negated, 'it is not a fragment')
  for (const match of rule.matches) yield judgeMatch(match, flow, context)
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
