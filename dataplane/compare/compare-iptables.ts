import { groupBy, misplaced, multisetDifference, pairsOf, sameSequence } from '../collections.ts'
import type { Chain, Rule, Ruleset, Table } from '../iptables-save.ts'
import { isKubeProxyChain, isSharedChain } from '../kube-proxy/mode-ownership.ts'
import { commentOf, normaliseSpec, targetOf } from '../rule.ts'
import { type CompareOptions, counted, type Difference, onlyOnOneSide } from './difference.ts'

/**
 * Chains in which the Services have the order of a Go map (facts of kube-proxy 1.20–1.35): the
 * rules of one Service are in order, those of different Services are not. Rules that belong to no
 * Service (IPVS mode, the node-ports rule) are in order.
 */
const SERVICE_ORDER_IS_FREE = new Set([
  'nat KUBE-SERVICES',
  'nat KUBE-NODEPORTS',
  'filter KUBE-SERVICES',
  'filter KUBE-EXTERNAL-SERVICES',
  'filter KUBE-PROXY-FIREWALL',
  'filter KUBE-NODEPORTS',
  // Userspace mode.
  'nat KUBE-PORTALS-CONTAINER',
  'nat KUBE-PORTALS-HOST',
  'nat KUBE-NODEPORT-CONTAINER',
  'nat KUBE-NODEPORT-HOST',
  'filter KUBE-NODEPORT-NON-LOCAL',
])
/**
 * Chains whose rules have no comment that names the Service, and are mutually exclusive: their
 * order has no effect.
 */
const ORDER_IS_FREE = new Set(['filter KUBE-IPVS-OUT-FILTER'])
const LINES_QUOTED = 20

/**
 * Compares kube-proxy's rules: its own chains completely, and its jumps from the built-in chains.
 */
export function compareIptables(
  expected: Ruleset,
  actual: Ruleset,
  options: CompareOptions,
): Difference[] {
  const none: Table = new Map()
  const differences: Difference[] = []
  for (const { key: table, ...chains } of pairsOf(expected, actual))
    for (const { key: chain, wanted, found } of pairsOf(
      chains.wanted ?? none,
      chains.found ?? none,
    )) {
      if (wanted && found && sameRules(wanted.rules, found.rules)) continue
      const compareChain = isKubeProxyChain(chain) ? compareOwnChain : compareJumps
      for (const difference of compareChain({ table, chain }, wanted, found, options))
        differences.push(difference)
    }
  return differences
}

/** Most chains are equal as text, which needs no parsing and no copy. */
const sameRules = (wanted: readonly Rule[], found: readonly Rule[]): boolean =>
  wanted.length === found.length && wanted.every(({ spec }, index) => spec === found[index]?.spec)

type ChainPlace = { table: string; chain: string }

function compareOwnChain(
  where: ChainPlace,
  wanted: Chain | undefined,
  found: Chain | undefined,
  { mode }: CompareOptions,
): Difference[] {
  const shared = isSharedChain(where.table, where.chain)
  if (wanted && found) return compareRules(where, specs(wanted), specs(found), shared)
  if (found && shared) return []
  const title = `${where.table} chain ${where.chain}`
  return onlyOnOneSide(where, title, { wanted, found }, showChain, `: mode ${mode} does not use it`)
}

/**
 * Compares the jumps from a built-in or foreign chain to kube-proxy's chains, and their order if
 * only kube-proxy determines it.
 */
function compareJumps(
  where: ChainPlace,
  wanted: Chain | undefined,
  found: Chain | undefined,
  { untouched = false }: CompareOptions,
): Difference[] {
  const expected = wanted ? kubeProxyJumps(wanted) : []
  const targets = new Set(expected.map(targetOf))
  // A jump to a chain shared with the kubelet belongs to the kubelet if the prediction does not
  // contain it.
  const actual = (found ? kubeProxyJumps(found) : []).filter((spec) => {
    const target = targetOf(spec)
    return targets.has(target) || !isSharedChain(where.table, target ?? '')
  })
  const different = differentRules(where, expected, actual, false)
  if (different.length > 0 || !found) return different
  const wrong = misplacedJump(expected, actual, specs(found), untouched)
  return wrong === undefined ? [] : [outOfOrder(where, expected, specs(found), 'a jump is', wrong)]
}

const kubeProxyJumps = (chain: Chain): string[] =>
  specs(chain).filter((spec) => spec.includes('KUBE-') && isKubeProxyChain(targetOf(spec) ?? ''))

function compareRules(
  where: ChainPlace,
  expected: string[],
  actual: string[],
  shared: boolean,
): Difference[] {
  const different = differentRules(where, expected, actual, shared)
  const place = `${where.table} ${where.chain}`
  if (different.length > 0 || shared || ORDER_IS_FREE.has(place)) return different
  const wanted = sortNodePortsTail(expected.map(normaliseSpec))
  const found = sortNodePortsTail(actual.map(normaliseSpec))
  const sequences = SERVICE_ORDER_IS_FREE.has(place)
    ? byService(wanted, found)
    : [{ wanted, found }]
  return sequences.flatMap((sequence) => {
    if (sameSequence(sequence.wanted, sequence.found)) return []
    const moved = misplaced(sequence.wanted, sequence.found)
    const which = moved.length === 1 ? 'a rule is' : `${moved.length} rules are`
    return outOfOrder(where, sequence.wanted, sequence.found, which, moved[0])
  })
}

function outOfOrder(
  where: ChainPlace,
  expected: string[],
  actual: string[],
  what: string,
  spec = '',
): Difference {
  const { table, chain } = where
  const text = `${table} ${chain}: ${what} out of order: -A ${chain} ${spec}`
  return {
    kind: 'order',
    where,
    expected: quoteLines(chain, expected),
    actual: quoteLines(chain, actual),
    text,
  }
}

/**
 * The last rules of nat KUBE-SERVICES jump to KUBE-NODEPORTS, one per address of nodePortAddresses,
 * in the order of a Go map.
 */
function sortNodePortsTail(rules: string[]): string[] {
  let start = rules.length
  while (start > 0 && targetOf(rules[start - 1] ?? '') === 'KUBE-NODEPORTS') start--
  return rules.length - start < 2 ? rules : [...rules.slice(0, start), ...rules.slice(start).sort()]
}

/**
 * Groups rules by Service; rules that belong to no Service form one group, and another one if they
 * end the chain.
 */
function byService(wanted: string[], found: string[]): { wanted: string[]; found: string[] }[] {
  const [wantedBy, foundBy] = [groupBy(wanted, commentService), groupBy(found, commentService)]
  const groups = [...wantedBy].map(([service, rules]) => ({
    wanted: rules,
    found: foundBy.get(service) ?? [],
  }))
  const last = wanted.slice(wanted.findLastIndex((spec) => commentService(spec) !== '') + 1)
  if (wantedBy.size > 1 && last.length > 0 && !sameSequence(last, found.slice(-last.length)))
    groups.push({ wanted: [...found.filter((spec) => !last.includes(spec)), ...last], found })
  return groups
}

/**
 * `default/web:http`, the first word of the comment of a rule that belongs to one Service port;
 * otherwise ''.
 */
function commentService(spec: string): string {
  const word = commentOf(spec)?.split(' ', 1)[0] ?? ''
  return word.includes('/') ? word : ''
}

/** Rules that only one side has; a pair that appears to be one altered rule is `wrong`. */
function differentRules(
  where: ChainPlace,
  expected: string[],
  actual: string[],
  shared: boolean,
): Difference[] {
  // Only rules that differ as text are parsed: they may be the same rule with another spelling.
  const differing = multisetDifference(expected, actual)
  const { missing, stale } = multisetDifference(
    differing.missing.map(normaliseSpec),
    differing.stale.map(normaliseSpec),
  )
  const place = `${where.table} ${where.chain}`
  const line = (spec: string) => `-A ${where.chain} ${spec}`
  const altered = pairAltered(missing, stale)
  const paired = new Set(altered.values())
  const left = shared ? [] : stale.filter((spec) => !paired.has(spec))
  return [
    ...missing.map(line).map((expected, index): Difference => {
      const found = altered.get(missing[index] ?? '')
      if (found === undefined)
        return { kind: 'missing', where, expected, text: `${place}: missing rule: ${expected}` }
      const actual = line(found)
      return {
        kind: 'wrong',
        where,
        expected,
        actual,
        text: `${place}: rule is ${actual}, not ${expected}`,
      }
    }),
    ...left.map(line).map((actual): Difference => {
      return { kind: 'stale', where, actual, text: `${place}: stale rule: ${actual}` }
    }),
  ]
}

/**
 * Pairs a missing rule with a stale one that has the same comment and target, else the same
 * comment, else (if it belongs to no Service) the same target.
 */
function pairAltered(missing: string[], stale: string[]): Map<string, string> {
  const pairs = new Map<string, string>()
  const left = new Set(stale)
  const likenesses = [
    (spec: string) =>
      commentOf(spec) === undefined ? undefined : `${commentOf(spec)}\n${targetOf(spec)}`,
    commentOf,
    (spec: string) => (commentService(spec) === '' ? targetOf(spec) : undefined),
  ]
  for (const likeness of likenesses) {
    const candidates = groupBy([...left], likeness)
    for (const spec of missing) {
      const key = pairs.has(spec) ? undefined : likeness(spec)
      const partner = key === undefined ? undefined : candidates.get(key)?.shift()
      if (partner === undefined) continue
      pairs.set(spec, partner)
      left.delete(partner)
    }
  }
  return pairs
}

const specs = (chain: Chain): string[] => chain.rules.map((rule) => rule.spec)

function showChain(chain: Chain): { line: string; size: string } {
  const count = chain.rules.length
  const lines = [
    `:${chain.name} ${chain.policy}`,
    ...(count === 0 ? [] : [quoteLines(chain.name, specs(chain))]),
  ]
  return { line: lines.join('\n'), size: count === 0 ? ' (empty)' : ` (${counted(count, 'rule')})` }
}

function quoteLines(chain: string, specs: readonly string[]): string {
  const lines = specs.slice(0, LINES_QUOTED).map((spec) => `-A ${chain} ${spec}`.trimEnd())
  if (specs.length > LINES_QUOTED) lines.push(`… and ${specs.length - LINES_QUOTED} more`)
  return lines.join('\n')
}

/**
 * kube-proxy inserts each of its jumps at the top of a chain, once, and never moves it. A jump that
 * existed before it started is below the others: one that another mode or the kubelet also creates.
 */
const MAY_BE_OLDER = new Set(['KUBE-FORWARD', 'KUBE-FIREWALL'])

/**
 * Chains of agents that append their jump, so that kube-proxy's jumps at the top are always above
 * it.
 */
const APPENDED = new Set(['KIND-MASQ-AGENT', 'IP-MASQ-AGENT'])

/**
 * The first of kube-proxy's jumps in a built-in chain at a position where kube-proxy never inserts
 * it, or undefined.
 * @param chain all rules of the actual chain; other programs' rules may be at any position
 * @param untouched also compares the order of the jumps with the prediction
 */
function misplacedJump(
  expected: readonly string[],
  actual: readonly string[],
  chain: readonly string[],
  untouched: boolean,
): string | undefined {
  const agent = chain.findIndex((spec) => APPENDED.has(targetOf(spec) ?? ''))
  const below = agent === -1 ? undefined : chain.slice(agent).find((spec) => actual.includes(spec))
  if (below !== undefined || !untouched) return below
  const found = actual.map(normaliseSpec)
  let end = found.length
  while (end > 0 && MAY_BE_OLDER.has(targetOf(found[end - 1] ?? '') ?? '')) end--
  const older = new Set(found.slice(end))
  const wanted = expected.map(normaliseSpec).filter((spec) => !older.has(spec))
  const newer = found.slice(0, end)
  return sameSequence(wanted, newer) ? undefined : misplaced(wanted, newer)[0]
}
