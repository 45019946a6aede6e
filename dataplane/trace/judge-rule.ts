import { contains } from '../ip-address.ts'
import type { Negatable, ParsedRule } from '../rule.ts'
import type { Flow } from './flow.ts'
import { allOf, type Judgement, judged, judgeMatch, PROTOCOL_NUMBERS, type TraceContext } from './matches.ts'

/**
 * The probability that a rule matches the packet, with the reason: the first field or match that fails
 * decides.
 */
export function judgeRule(rule: ParsedRule, flow: Flow, context: TraceContext): Judgement {
  const judgements: Judgement[] = []
  for (const { fieldOf, holds, describe } of FIELDS) {
    const field = fieldOf(rule)
    if (!field) continue
    const judgement = judged(holds(field.value, flow), field.negated, describe(flow))
    if (judgement.chance === 0) return judgement
    judgements.push(judgement)
  }
  if (rule.fragment) {
    const judgement = judged(false, rule.fragment.negated, 'it is not a fragment')
    if (judgement.chance === 0) return judgement
    judgements.push(judgement)
  }
  for (const match of rule.matches) {
    const judgement = judgeMatch(match, flow, context)
    if (judgement.chance === 0) return judgement
    judgements.push(judgement)
  }
  return allOf(judgements)
}

/**
 * True for a rule with another destination, without computing a reason: most evaluated rules are for other
 * Services.
 */
export function isForOther({ destination }: ParsedRule, flow: Flow): boolean {
  return destination !== undefined && contains(destination.value, flow.destination) === destination.negated
}

interface Field {
  fieldOf: (rule: ParsedRule) => Negatable<string> | undefined
  holds: (value: string, flow: Flow) => boolean
  describe: (flow: Flow) => string
}

/** The conditions of a rule besides its matches, in the order of iptables-save. */
const FIELDS: readonly Field[] = [
  {
    fieldOf: ({ source }) => source,
    holds: (prefix, { source }) => contains(prefix, source),
    describe: ({ source }) => `source is ${source}`,
  },
  {
    fieldOf: ({ destination }) => destination,
    holds: (prefix, { destination }) => contains(prefix, destination),
    describe: ({ destination }) => `destination is ${destination}`,
  },
  {
    fieldOf: ({ inInterface }) => inInterface,
    holds: (name, { inInterface }) => isInterface(name, inInterface),
    describe: ({ inInterface }) => `came in by ${inInterface ?? 'none'}`,
  },
  {
    fieldOf: ({ outInterface }) => outInterface,
    holds: (name, { outInterface }) => isInterface(name, outInterface),
    describe: ({ outInterface }) => `leaves by ${outInterface ?? 'none'}`,
  },
  { fieldOf: ({ protocol }) => protocol, holds: isProtocol, describe: ({ protocol }) => `protocol is ${protocol}` },
]

/** `eth0`, or `veth+` for every name with this prefix. */
function isInterface(pattern: string, name: string | undefined): boolean {
  if (pattern === '+') return true
  return pattern.endsWith('+') ? (name ?? '').startsWith(pattern.slice(0, -1)) : pattern === name
}

function isProtocol(protocol: string, flow: Flow): boolean {
  return protocol === 'all' || protocol === '0' || (PROTOCOL_NUMBERS[protocol] ?? protocol) === flow.protocol
}
