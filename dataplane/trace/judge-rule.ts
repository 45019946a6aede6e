import { contains } from '../ip-address.ts'
import type { Negatable, ParsedRule } from '../rule.ts'
import type { Flow } from './flow.ts'
import { allOf, type Judgement, judged, judgeMatch, PROTOCOL_NUMBERS, type Surroundings } from './matches.ts'

/** The chance that a rule matches the packet, and why it does or does not: the first field or match that fails decides. */
export function judgeRule(rule: ParsedRule, flow: Flow, around: Surroundings): Judgement {
  const judgements: Judgement[] = []
  for (const { asked, holds, tell } of FIELDS) {
    const field = asked(rule)
    if (!field) continue
    const judgement = judged(holds(field.value, flow), field.negated, tell(flow))
    if (judgement.chance === 0) return judgement
    judgements.push(judgement)
  }
  if (rule.fragment) {
    const judgement = judged(false, rule.fragment.negated, 'it is no fragment')
    if (judgement.chance === 0) return judgement
    judgements.push(judgement)
  }
  for (const match of rule.matches) {
    const judgement = judgeMatch(match, flow, around)
    if (judgement.chance === 0) return judgement
    judgements.push(judgement)
  }
  return allOf(judgements)
}

/** True of a rule for another destination, told without a reason: most rules that a packet meets are for other Services. */
export function isForOther({ destination }: ParsedRule, flow: Flow): boolean {
  return destination !== undefined && contains(destination.value, flow.destination) === destination.negated
}

interface Field {
  asked: (rule: ParsedRule) => Negatable<string> | undefined
  holds: (value: string, flow: Flow) => boolean
  tell: (flow: Flow) => string
}

/** What a rule asks of a packet besides its matches, in the order of iptables-save. */
const FIELDS: readonly Field[] = [
  {
    asked: ({ source }) => source,
    holds: (prefix, { source }) => contains(prefix, source),
    tell: ({ source }) => `source is ${source}`,
  },
  {
    asked: ({ destination }) => destination,
    holds: (prefix, { destination }) => contains(prefix, destination),
    tell: ({ destination }) => `destination is ${destination}`,
  },
  {
    asked: ({ inInterface }) => inInterface,
    holds: (name, { inInterface }) => isInterface(name, inInterface),
    tell: ({ inInterface }) => `came in by ${inInterface ?? 'none'}`,
  },
  {
    asked: ({ outInterface }) => outInterface,
    holds: (name, { outInterface }) => isInterface(name, outInterface),
    tell: ({ outInterface }) => `leaves by ${outInterface ?? 'none'}`,
  },
  { asked: ({ protocol }) => protocol, holds: isProtocol, tell: ({ protocol }) => `protocol is ${protocol}` },
]

/** `eth0`, or `veth+` for every name that begins so. */
function isInterface(asked: string, name: string | undefined): boolean {
  if (asked === '+') return true
  return asked.endsWith('+') ? (name ?? '').startsWith(asked.slice(0, -1)) : asked === name
}

function isProtocol(asked: string, flow: Flow): boolean {
  return asked === 'all' || asked === '0' || (PROTOCOL_NUMBERS[asked] ?? asked) === flow.protocol
}
