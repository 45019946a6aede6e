import type { Chain, Rule, Ruleset } from '../iptables-save.ts'
import { commentOf, normaliseSpec, targetOf } from '../rule-text.ts'
import {
  type CompareOptions,
  type Finding,
  isKubeProxyChain,
  isSharedChain,
  misplaced,
  multisetDifference,
  sameSequence,
} from './finding.ts'

/**
 * Chains in which the Services have the order of a Go map (facts of kube-proxy 1.20–1.35): the rules of one Service are in
 * order, those of different Services are not. Rules that belong to no Service (IPVS mode, the node-ports rule) are in order.
 */
const SERVICE_ORDER_IS_FREE = new Set([
  'nat KUBE-SERVICES',
  'nat KUBE-NODEPORTS',
  'filter KUBE-SERVICES',
  'filter KUBE-EXTERNAL-SERVICES',
  'filter KUBE-PROXY-FIREWALL',
  'filter KUBE-NODEPORTS',
])
/** Chains whose rules have no comment that names the Service, and are mutually exclusive: their order has no effect. */
const ORDER_IS_FREE = new Set(['filter KUBE-IPVS-OUT-FILTER'])
/** Maximum number of lines in a finding about a whole chain. */
const LINES_QUOTED = 20

/** Compares kube-proxy's rules: its own chains completely, and its jumps from the built-in chains. */
export function compareIptables(expected: Ruleset, actual: Ruleset, options: CompareOptions): Finding[] {
  const findings: Finding[] = []
  const none = new Map<string, Chain>()
  for (const table of new Set([...expected.keys(), ...actual.keys()])) {
    const wantedChains = expected.get(table) ?? none
    const foundChains = actual.get(table) ?? none
    const compareChain = (chain: string, wanted: Chain | undefined, found: Chain | undefined) => {
      if (wanted && found && sameRules(wanted.rules, found.rules)) return
      const where = { table, chain }
      if (options.foreign?.(where)) return
      if (isKubeProxyChain(chain)) compareOwnChain(where, wanted, found, options, findings)
      else compareJumps(where, wanted, found, options, findings)
    }
    for (const [chain, wanted] of wantedChains) compareChain(chain, wanted, foundChains.get(chain))
    for (const [chain, found] of foundChains) if (!wantedChains.has(chain)) compareChain(chain, undefined, found)
  }
  return findings
}

/** Most chains are equal as text, which needs no parsing and no copy. */
function sameRules(wanted: readonly Rule[], found: readonly Rule[]): boolean {
  if (wanted.length !== found.length) return false
  for (let index = 0; index < wanted.length; index++) if (wanted[index]?.spec !== found[index]?.spec) return false
  return true
}

type ChainPlace = { table: string; chain: string }

function compareOwnChain(
  where: ChainPlace,
  wanted: Chain | undefined,
  found: Chain | undefined,
  options: CompareOptions,
  findings: Finding[],
): void {
  const shared = isSharedChain(where.table, where.chain)
  if (wanted && !found) {
    const text = `${where.table} chain ${where.chain} is missing${rulesOf(wanted)}`
    findings.push({ kind: 'missing', where, expected: quoteChain(wanted), text })
  } else if (found && !wanted && !shared) {
    const text = `${where.table} chain ${where.chain} is stale${rulesOf(found)}: mode ${options.mode} does not use it`
    findings.push({ kind: 'stale', where, actual: quoteChain(found), text })
  } else if (wanted && found) {
    compareRules(where, specs(wanted), specs(found), shared, findings)
  }
}

/**
 * Compares the jumps from a built-in or foreign chain to kube-proxy's chains, and their order if only kube-proxy determines
 * it.
 */
function compareJumps(
  where: ChainPlace,
  wanted: Chain | undefined,
  found: Chain | undefined,
  options: CompareOptions,
  findings: Finding[],
): void {
  const expected = wanted ? kubeProxyJumps(wanted) : []
  const targets = new Set(expected.map(targetOf))
  // A jump to a chain shared with the kubelet belongs to the kubelet if the prediction does not contain it.
  const actual = (found ? kubeProxyJumps(found) : []).filter((spec) => {
    const target = targetOf(spec)
    return targets.has(target) || !isSharedChain(where.table, target ?? '')
  })
  if (reportDifference(where, expected, actual, false, findings) > 0 || !found) return
  const wrong = misplacedJump(expected, actual, specs(found), options.untouched ?? false)
  if (wrong === undefined) return
  findings.push({
    kind: 'order',
    where,
    expected: quoteLines(where.chain, expected),
    actual: quoteLines(where.chain, specs(found)),
    text: `${where.table} ${where.chain}: a jump is out of order: -A ${where.chain} ${wrong}`,
  })
}

function kubeProxyJumps(chain: Chain): string[] {
  return specs(chain).filter((spec) => spec.includes('KUBE-') && isKubeProxyChain(targetOf(spec) ?? ''))
}

function compareRules(where: ChainPlace, expected: string[], actual: string[], shared: boolean, findings: Finding[]) {
  if (reportDifference(where, expected, actual, shared, findings) > 0) return
  const wanted = sortNodePortsTail(expected.map(normaliseSpec))
  const found = sortNodePortsTail(actual.map(normaliseSpec))
  const place = `${where.table} ${where.chain}`
  if (shared || ORDER_IS_FREE.has(place)) return
  const sequences = SERVICE_ORDER_IS_FREE.has(place) ? byService(wanted, found) : [{ wanted, found }]
  for (const sequence of sequences) {
    if (sameSequence(sequence.wanted, sequence.found)) continue
    const moved = misplaced(sequence.wanted, sequence.found)
    findings.push({
      kind: 'order',
      where,
      expected: quoteLines(where.chain, sequence.wanted),
      actual: quoteLines(where.chain, sequence.found),
      text: `${place}: ${moved.length === 1 ? 'a rule is' : `${moved.length} rules are`} out of order: -A ${where.chain} ${moved[0]}`,
    })
  }
}

/**
 * The last rules of nat KUBE-SERVICES jump to KUBE-NODEPORTS, one per address of nodePortAddresses, in the order of a Go
 * map.
 */
function sortNodePortsTail(rules: string[]): string[] {
  let start = rules.length
  while (start > 0 && targetOf(rules[start - 1] ?? '') === 'KUBE-NODEPORTS') start--
  return rules.length - start < 2 ? rules : [...rules.slice(0, start), ...rules.slice(start).sort()]
}

/** Groups rules by Service; rules that belong to no Service form one group, and another one if they end the chain. */
function byService(wanted: string[], found: string[]): { wanted: string[]; found: string[] }[] {
  const wantedBy = groupByService(wanted)
  const foundBy = groupByService(found)
  const groups = [...wantedBy].map(([service, rules]) => ({ wanted: rules, found: foundBy.get(service) ?? [] }))
  const last = wanted.slice(wanted.findLastIndex((spec) => serviceOf(spec) !== '') + 1)
  if (wantedBy.size > 1 && last.length > 0 && !sameSequence(last, found.slice(-last.length)))
    groups.push({ wanted: [...found.filter((spec) => !last.includes(spec)), ...last], found })
  return groups
}

function groupByService(specs: string[]): Map<string, string[]> {
  const groups = new Map<string, string[]>()
  for (const spec of specs) {
    const service = serviceOf(spec)
    const group = groups.get(service)
    if (group) group.push(spec)
    else groups.set(service, [spec])
  }
  return groups
}

/** `default/web:http`, the first word of the comment of a rule that belongs to one Service port; otherwise ''. */
function serviceOf(spec: string): string {
  const word = commentOf(spec)?.split(' ', 1)[0] ?? ''
  return word.includes('/') ? word : ''
}

/**
 * Reports rules that only one side has; a pair that appears to be one altered rule is reported as `wrong`. Returns the
 * number of findings.
 */
function reportDifference(
  where: ChainPlace,
  expected: string[],
  actual: string[],
  shared: boolean,
  findings: Finding[],
): number {
  const before = findings.length
  // Only rules that differ as text are parsed: they may be the same rule with another spelling.
  const differing = multisetDifference(expected, actual)
  const { missing, stale } = multisetDifference(
    differing.missing.map(normaliseSpec),
    differing.stale.map(normaliseSpec),
  )
  const place = `${where.table} ${where.chain}`
  const altered = pairAltered(missing, stale)
  for (const spec of missing) {
    const line = `-A ${where.chain} ${spec}`
    const found = altered.get(spec)
    if (found === undefined) {
      findings.push({ kind: 'missing', where, expected: line, text: `${place}: missing rule: ${line}` })
    } else {
      const actual = `-A ${where.chain} ${found}`
      findings.push({ kind: 'wrong', where, expected: line, actual, text: `${place}: rule is ${actual}, not ${line}` })
    }
  }
  const paired = new Set(altered.values())
  if (shared) return findings.length - before
  for (const spec of stale) {
    if (paired.has(spec)) continue
    const line = `-A ${where.chain} ${spec}`
    findings.push({ kind: 'stale', where, actual: line, text: `${place}: stale rule: ${line}` })
  }
  return findings.length - before
}

/**
 * Pairs a missing rule with a stale one that has the same comment and target, else the same comment, else (if it belongs to
 * no Service) the same target.
 */
function pairAltered(missing: string[], stale: string[]): Map<string, string> {
  const pairs = new Map<string, string>()
  const left = new Set(stale)
  const likenesses = [
    (spec: string) => (commentOf(spec) === undefined ? undefined : `${commentOf(spec)}\n${targetOf(spec)}`),
    commentOf,
    (spec: string) => (serviceOf(spec) === '' ? targetOf(spec) : undefined),
  ]
  for (const likeness of likenesses) {
    const candidates = new Map<string, string[]>()
    for (const spec of left) {
      const key = likeness(spec)
      if (key === undefined) continue
      const alike = candidates.get(key)
      if (alike) alike.push(spec)
      else candidates.set(key, [spec])
    }
    for (const alike of candidates.values()) alike.reverse()
    for (const spec of missing) {
      const key = pairs.has(spec) ? undefined : likeness(spec)
      const partner = key === undefined ? undefined : candidates.get(key)?.pop()
      if (partner === undefined) continue
      pairs.set(spec, partner)
      left.delete(partner)
    }
  }
  return pairs
}

function specs(chain: Chain): string[] {
  return chain.rules.map((rule) => rule.spec)
}

function rulesOf(chain: Chain): string {
  const count = chain.rules.length
  return count === 0 ? ' (empty)' : ` (${count} ${count === 1 ? 'rule' : 'rules'})`
}

function quoteChain(chain: Chain): string {
  return [`:${chain.name} ${chain.policy}`, quoteLines(chain.name, specs(chain))]
    .filter((line) => line !== '')
    .join('\n')
}

function quoteLines(chain: string, specs: readonly string[]): string {
  const lines = specs.slice(0, LINES_QUOTED).map((spec) => `-A ${chain} ${spec}`.trimEnd())
  if (specs.length > LINES_QUOTED) lines.push(`… and ${specs.length - LINES_QUOTED} more`)
  return lines.join('\n')
}

/**
 * kube-proxy inserts each of its jumps at the top of a chain, once, and never moves it. A jump that existed before it
 * started is below the others: one that another mode or the kubelet also creates.
 */
const MAY_BE_OLDER = new Set(['KUBE-FORWARD', 'KUBE-FIREWALL'])

/** Chains of agents that append their jump, so that kube-proxy's jumps at the top are always above it. */
const APPENDED = new Set(['KIND-MASQ-AGENT', 'IP-MASQ-AGENT'])

/**
 * The first of kube-proxy's jumps in a built-in chain at a position where kube-proxy never inserts it, or undefined. Other
 * programs' rules may be at any position.
 * @param expected the jumps in predicted order
 * @param actual the same jumps in their actual order
 * @param chain all rules of the actual chain
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
