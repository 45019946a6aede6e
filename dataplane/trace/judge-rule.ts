import { contains } from '../ip-address.ts'
import type { Negatable, ParsedRule } from '../rule.ts'
import type { Flow } from './flow.ts'
import { allOf, type Judgement, judged, judgeMatch, PROTOCOL_NUMBERS, type Surroundings } from './matches.ts'

/** The chance that a rule matches the packet, and why it does or does not: the first field or match that fails decides. */
export function judgeRule(rule: ParsedRule, flow: Flow, around: Surroundings): Judgement {
  const fields = [
    judgeField(rule.source, (prefix) => contains(prefix, flow.source), `source is ${flow.source}`),
    judgeField(rule.destination, (prefix) => contains(prefix, flow.destination), `destination is ${flow.destination}`),
    judgeField(
      rule.inInterface,
      (name) => isInterface(name, flow.inInterface),
      `came in by ${flow.inInterface ?? 'none'}`,
    ),
    judgeField(
      rule.outInterface,
      (name) => isInterface(name, flow.outInterface),
      `leaves by ${flow.outInterface ?? 'none'}`,
    ),
    judgeField(rule.protocol, (name) => isProtocol(name, flow), `protocol is ${flow.protocol}`),
  ]
  if (rule.fragment) fields.push(judged(false, rule.fragment.negated, 'it is no fragment'))
  const basic = allOf(fields.filter((field) => field !== undefined))
  if (basic.chance === 0) return basic
  const judgements = [basic]
  for (const match of rule.matches) {
    const judgement = judgeMatch(match, flow, around)
    if (judgement.chance === 0) return judgement
    judgements.push(judgement)
  }
  return allOf(judgements)
}

function judgeField(
  asked: Negatable<string> | undefined,
  holds: (value: string) => boolean,
  fact: string,
): Judgement | undefined {
  return asked && judged(holds(asked.value), asked.negated, fact)
}

/** `eth0`, or `veth+` for every name that begins so. */
function isInterface(asked: string, name: string | undefined): boolean {
  if (asked === '+') return true
  return asked.endsWith('+') ? (name ?? '').startsWith(asked.slice(0, -1)) : asked === name
}

function isProtocol(asked: string, flow: Flow): boolean {
  return asked === 'all' || asked === '0' || (PROTOCOL_NUMBERS[asked] ?? asked) === flow.protocol
}
