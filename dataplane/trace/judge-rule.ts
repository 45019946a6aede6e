import { contains, PROTOCOL_NUMBERS } from '../ip-address.ts'
import type { IpSets } from '../ipset-save.ts'
import type { ParsedRule, RuleOptions } from '../rule.ts'
import type { Flow } from './flow.ts'
import type { NodeNetwork } from './node-network.ts'
import { setHolds, setKey } from './set-match.ts'

/**
 * The probability that a match is true (0 or 1 except for `statistic`) and the reason, which may be
 * empty.
 */
interface MatchChance {
  chance: number
  reason: string
}

/** The input of a rule besides the packet. */
export interface TraceContext {
  network: NodeNetwork
  ipsets: IpSets
}

/**
 * The probability that a rule matches the packet, with the reason: the first field or match that
 * fails decides.
 */
export const judgeRule = (rule: ParsedRule, flow: Flow, context: TraceContext): MatchChance =>
  allOf(judgements(rule, flow, context))

function* judgements(rule: ParsedRule, flow: Flow, context: TraceContext): Generator<MatchChance> {
  for (const [name, condition] of FIELDS) {
    const field = rule[name]
    if (field) yield judged(condition(field.value, flow, context, []), field.negated)
  }
  if (rule.fragment) yield judged([false, 'it is not a fragment'], rule.fragment.negated)
  for (const { name, options } of rule.matches)
    yield JUDGES.get(name)?.(options, flow, context) ?? notModelled(`the match "${name}"`)
}

/**
 * True for a rule with another destination, without computing a reason: most evaluated rules are
 * for other Services.
 */
export function isForOther({ destination }: ParsedRule, flow: Flow): boolean {
  return (
    destination !== undefined &&
    contains(destination.value, flow.destination) === destination.negated
  )
}

const FIELDS: readonly [
  field: 'source' | 'destination' | 'inInterface' | 'outInterface' | 'protocol',
  condition: MatchCondition,
][] = [
  ['source', (prefix, { source }) => [contains(prefix, source), `source is ${source}`]],
  [
    'destination',
    (prefix, { destination }) => [contains(prefix, destination), `destination is ${destination}`],
  ],
  [
    'inInterface',
    (name, { inInterface }) => [
      isInterface(name, inInterface),
      `came in by ${inInterface ?? 'none'}`,
    ],
  ],
  [
    'outInterface',
    (name, { outInterface }) => [
      isInterface(name, outInterface),
      `leaves by ${outInterface ?? 'none'}`,
    ],
  ],
  [
    'protocol',
    (name, { protocol }) => [isAny(name) || isProtocol(name, protocol), `protocol is ${protocol}`],
  ],
]

const isAny = (protocol: string): boolean => protocol === 'all' || protocol === '0'

/** `eth0`, or `veth+` for every name with this prefix. */
function isInterface(pattern: string, name: string | undefined): boolean {
  if (pattern === '+') return true
  return pattern.endsWith('+') ? (name ?? '').startsWith(pattern.slice(0, -1)) : pattern === name
}

type Judge = (options: RuleOptions, flow: Flow, context: TraceContext) => MatchChance

/** Whether a value holds for the packet, and the fact that decides, for the reason. */
type MatchFact = readonly [holds: boolean, fact: string]
type MatchCondition = (
  value: string,
  flow: Flow,
  context: TraceContext,
  values: readonly string[],
) => MatchFact

const HOLDS: MatchChance = { chance: 1, reason: '' }

const judged = ([holds, fact]: MatchFact, negated: boolean): MatchChance => {
  return { chance: holds === negated ? 0 : 1, reason: fact }
}

const notModelled = (what: string): MatchChance => ({
  chance: 0,
  reason: `${what} is not modelled, taken as no match`,
})

/**
 * The conjunction of several conditions: the reason is that of the first one that fails, else of
 * all.
 */
function allOf(judgements: Iterable<MatchChance>): MatchChance {
  const all = { chance: 1, reason: '' }
  for (const one of judgements) {
    if (one.chance === 0) return one
    all.chance *= one.chance
    all.reason += all.reason === '' || one.reason === '' ? one.reason : `, ${one.reason}`
  }
  return all
}

const judgeBy =
  (conditions: Record<string, MatchCondition>): Judge =>
  (options, flow, context) =>
    allOf(
      [...options].map(([option, { negated, value }]) => {
        const condition = conditions[option]
        return condition
          ? judged(condition(value[0] ?? '', flow, context, value), negated)
          : notModelled(option)
      }),
    )

const hasType = (types: string, address: string, { network }: TraceContext): MatchFact => {
  const type = network.addressType(address)
  return [types.split(',').includes(type), `${address} is of type ${type}`]
}

const ADDRESS_TYPES: Record<string, MatchCondition> = {
  '--src-type': (types, { source }, context) => hasType(types, source, context),
  '--dst-type': (types, { destination }, context) => hasType(types, destination, context),
  '--limit-iface-in': () => [true, ''],
  '--limit-iface-out': () => [true, ''],
}

const judgeMark = (name: string, markOf: (flow: Flow) => number): Judge =>
  judgeBy({
    '--mark': (text, flow) => {
      const [value, mask] = readMark(text)
      const mark = markOf(flow)
      return [(mark & mask) >>> 0 === value, `${name} is 0x${mark.toString(16)}`]
    },
  })

/** `0x4000/0x4000` → [value, mask]; without a mask all 32 bits are compared. */
export function readMark(text: string): [value: number, mask: number] {
  const [value = '0', mask = '0xffffffff'] = text.split('/')
  return [Number(value) >>> 0, Number(mask) >>> 0]
}

const isProtocol = (text: string, protocol: string): boolean =>
  (PROTOCOL_NUMBERS[text] ?? text) === protocol
const isOriginal: MatchCondition = (text) => [text === 'ORIGINAL', 'direction is ORIGINAL']

const hasState: MatchCondition = (text, flow) => {
  const states = connectionStates(flow)
  return [
    text.split(',').some((state) => states.includes(state)),
    `connection is ${states.join(',')}`,
  ]
}

const CONNTRACK: Record<string, MatchCondition> = {
  '--ctstate': hasState,
  '--state': hasState,
  '--ctorigdst': (text, { original: { destination } }) => [
    contains(text, destination),
    `original dst is ${destination}`,
  ],
  '--ctorigsrc': (text, { original: { source } }) => [
    contains(text, source),
    `original src is ${source}`,
  ],
  '--ctorigdstport': (text, { original: { port } }) => [
    inPorts(text, port),
    `original port is ${port}`,
  ],
  '--ctproto': (text, { protocol }) => [isProtocol(text, protocol), protocol],
  '--ctdir': isOriginal,
  '--ctstatus': (text) => [text.split(',').includes('NONE'), 'connection has no status yet'],
}

/**
 * The states of a connection's first packet. IPVS changes conntrack's reply tuple but sets no DNAT
 * status.
 */
export function connectionStates(flow: Flow): string[] {
  return !flow.tracked
    ? ['UNTRACKED']
    : ['NEW', ...(flow.translated ? ['DNAT'] : []), ...(flow.sourceTranslated ? ['SNAT'] : [])]
}

const destinationPort: MatchCondition = (text, { port }) => [inPorts(text, port), `port is ${port}`]
const fromPort: MatchCondition = (text) => [
  inPorts(text, 0) && inPorts(text, 65535),
  'source port is any free one',
]

const PORTS: Record<string, MatchCondition> = {
  '--dport': destinationPort,
  '--dports': destinationPort,
  '--ports': destinationPort,
  '--sport': fromPort,
  '--sports': fromPort,
  '--syn': () => [true, 'it is a SYN'],
  '--tcp-flags': (text, _flow, _context, [, set = '']) => {
    // The first packet has only the SYN flag, so the flags within the mask must equal the wanted
    // flags.
    const kept = text.split(',').filter((flag) => flag === 'SYN' || flag === 'ALL')
    const wanted = set.split(',').filter((flag) => flag !== 'NONE')
    const holds = kept.length > 0 ? wanted.length === 1 && wanted[0] === 'SYN' : wanted.length === 0
    return [holds, 'its flags are SYN']
  },
}

/** Whether a port is in `80`, `80:90`, `:90`, or a comma-separated list of these. */
function inPorts(text: string, port: number): boolean {
  return text.split(',').some((part) => {
    const [low = '', high = low] = part.split(':')
    return port >= Number(low === '' ? 0 : low) && port <= Number(high === '' ? 65535 : high)
  })
}

const RANGES: Record<string, MatchCondition> = {
  '--src-range': (range, { source }) => [contains(range, source), `address is ${source}`],
  '--dst-range': (range, { destination }) => [
    contains(range, destination),
    `address is ${destination}`,
  ],
}

const METHODS = { masq: 'MASQ', route: 'GATE', tunnel: 'IPIP' }

function judgeIpvs(options: RuleOptions, flow: Flow, context: TraceContext): MatchChance {
  const { ipvs } = flow
  const wanted = options.get('--ipvs')
  if (wanted)
    return judged(
      [ipvs !== undefined, ipvs ? 'IPVS handled it' : 'IPVS did not handle it'],
      wanted.negated,
    )
  if (!ipvs) return { chance: 0, reason: 'IPVS did not handle it' }
  const { address, port, protocol, method } = ipvs
  return judgeBy({
    '--vaddr': (text) => [contains(text, address), `virtual ${address}`],
    '--vport': (text) => [Number(text) === port, `virtual port ${port}`],
    '--vproto': (text) => [isProtocol(text, protocol), protocol],
    '--vdir': isOriginal,
    '--vmethod': (text) => [text === METHODS[method], `forwarded by ${METHODS[method]}`],
  })(options, flow, context)
}

function judgePhysdev(options: RuleOptions): MatchChance {
  // A routed packet has no bridge port, so every positive condition is false.
  return allOf([...options.values()].map(({ negated }) => judged([false, 'not bridged'], negated)))
}

/** The packet is the first of its client, so no list contains the client yet. */
function judgeRecent(options: RuleOptions): MatchChance {
  const name = options.get('--name')?.value[0] ?? 'DEFAULT'
  const set = options.get('--set')
  if (set) return judged([true, `source is added to the list ${name}`], set.negated)
  const wanted = options.get('--rcheck') ?? options.get('--update') ?? options.get('--remove')
  return wanted ? judged([false, `source is not in the list ${name}`], wanted.negated) : HOLDS
}

function judgeSet(options: RuleOptions, flow: Flow, { ipsets }: TraceContext): MatchChance {
  const wanted = options.get('--match-set')
  const [name = '', directions = ''] = wanted?.value ?? []
  const set = ipsets.get(name)
  if (!set) return judged([false, `the set ${name} does not exist`], wanted?.negated ?? false)
  const sides = directions.split(',')
  const holds = setHolds(ipsets, set, sides, flow)
  const key = setKey(set, sides, flow)
    .map((part) => part ?? '?')
    .join(',')
  return judged(
    [holds, `${key} is ${holds ? '' : 'not '}in the set ${name}`],
    wanted?.negated ?? false,
  )
}

function judgeStatistic(options: RuleOptions): MatchChance {
  const probability = options.get('--probability')
  const every = options.get('--every')
  const wanted = probability ?? every
  if (!wanted) return HOLDS
  // The kernel stores probabilities in steps of 1/2³¹ (xt_statistic).
  const share = probability
    ? Math.round(Number(probability.value[0]) * 2 ** 31) / 2 ** 31
    : 1 / Number(every?.value[0])
  const chance = Math.min(1, Math.max(0, Number.isFinite(share) ? share : 0))
  const meant = wanted.negated ? 1 - chance : chance
  return { chance: meant, reason: `by chance, ${Number(meant.toFixed(6))}` }
}

const JUDGES: ReadonlyMap<string, Judge> = new Map(
  Object.entries<Judge>({
    addrtype: judgeBy(ADDRESS_TYPES),
    comment: () => HOLDS,
    connmark: judgeMark('connection mark', ({ connmark }) => connmark),
    conntrack: judgeBy(CONNTRACK),
    icmp: () => ({ chance: 0, reason: 'it is not an ICMP packet' }),
    icmp6: () => ({ chance: 0, reason: 'it is not an ICMPv6 packet' }),
    iprange: judgeBy(RANGES),
    ipvs: judgeIpvs,
    limit: () => ({ chance: 1, reason: 'within the limit' }),
    mark: judgeMark('mark', ({ mark }) => mark),
    multiport: judgeBy(PORTS),
    nfacct: () => HOLDS,
    physdev: judgePhysdev,
    recent: judgeRecent,
    sctp: judgeBy(PORTS),
    set: judgeSet,
    state: judgeBy(CONNTRACK),
    statistic: judgeStatistic,
    tcp: judgeBy(PORTS),
    udp: judgeBy(PORTS),
  }),
)
