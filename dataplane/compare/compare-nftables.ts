import { isServicePortChain } from '../kube-proxy/nftables/names.ts'
import { branchesOf, describeBranch } from '../kube-proxy/nftables/service-branches.ts'
import { DROPS_UNALLOCATED } from '../kube-proxy/nftables/static-chains.ts'
import { withoutSingleBraces } from '../nft-address-set.ts'
import { KUBE_PROXY_TABLE, type NftChain, type NftRule, type NftTable } from '../nft-table.ts'
import { type CompareOptions, type Finding, misplaced, multisetDifference, sameSequence } from './finding.ts'

const AFFINITY = 'affinity-'

const titleOf = ({ family, name }: NftTable): string => `${family} ${name}`
const hookOf = ({ base }: NftChain): string =>
  base ? `${base.type} ${base.hook} ${base.priority} ${base.policy ?? ''}` : ''

/**
 * Compares kube-proxy's own tables: sets and maps by element, base chains and chains that belong to no Service by rule,
 * and the final targets of each map element. The division and names of Service chains, which depend on the version, are
 * not compared. An empty chain of a deleted Service is ignored: kube-proxy flushes chains first and deletes them later.
 */
export function compareNftables(
  expected: readonly NftTable[],
  actual: readonly NftTable[],
  options: CompareOptions,
): Finding[] {
  const findings: Finding[] = []
  const own = actual.filter(({ name }) => name === KUBE_PROXY_TABLE)
  for (const wanted of expected) {
    const title = titleOf(wanted)
    const where = { nft: title, part: 'table' }
    if (options.foreign?.(where)) continue
    const found = own.find((table) => titleOf(table) === title)
    if (found) compareTable(wanted, found, findings)
    else findings.push({ kind: 'missing', where, expected: `table ${title}`, text: `table ${title} is missing` })
  }
  for (const table of own) {
    const title = titleOf(table)
    const where = { nft: title, part: 'table' }
    if (expected.some((wanted) => titleOf(wanted) === title) || options.foreign?.(where)) continue
    const text = `table ${title} is stale (${table.chains.size} chains): mode ${options.mode} does not use it`
    findings.push({ kind: 'stale', where, actual: `table ${title}`, text })
  }
  return findings
}

function compareTable(wanted: NftTable, found: NftTable, findings: Finding[]): void {
  compareSets(wanted, found, findings)
  compareMaps(wanted, found, findings)
  for (const [name, chain] of wanted.chains) {
    if (isServicePortChain(name)) continue
    compareChain(wanted, name, chain, atSamePlace(found, name, chain), findings)
  }
  const targets = reachable(found)
  for (const [name, chain] of found.chains) {
    if (isServicePortChain(name) ? targets.has(name) || chain.rules.length === 0 : isExpected(wanted, name, chain))
      continue
    const where = { nft: titleOf(wanted), part: `chain ${name}` }
    const text = `chain ${name} is stale (${chain.rules.length} rules): no rule or map of kube-proxy leads to it`
    findings.push({ kind: 'stale', where, actual: `chain ${name}`, text })
  }
}

/** The chain with the same name, or for a base chain the one with the same hook and priority. */
function atSamePlace(found: NftTable, name: string, chain: NftChain): NftChain | undefined {
  const same = found.chains.get(name)
  if (!chain.base || (same && hookOf(same) === hookOf(chain))) return same
  return [...found.chains.values()].find((other) => hookOf(other) === hookOf(chain))
}

const isExpected = (wanted: NftTable, name: string, chain: NftChain): boolean =>
  wanted.chains.has(name) || (chain.base !== undefined && atSamePlace(wanted, name, chain) !== undefined)

function compareChain(
  { family, name: table }: NftTable,
  name: string,
  wanted: NftChain,
  found: NftChain | undefined,
  findings: Finding[],
): void {
  const where = { nft: `${family} ${table}`, part: `chain ${name}` }
  const place = wanted.base ? ` at hook ${wanted.base.hook}, priority ${wanted.base.priority}` : ''
  if (!found) {
    findings.push({ kind: 'missing', where, expected: `chain ${name}`, text: `chain ${name}${place} is missing` })
    return
  }
  // Without a ServiceCIDR object, the prediction can only guess the Service ranges.
  const text = (rule: NftRule) =>
    rule.comment === DROPS_UNALLOCATED
      ? `${rule.text.split(' ').at(-1)}: ${rule.comment}`
      : withoutSingleBraces(rule.text)
  const isOptional = (rule: NftRule) =>
    rule.comment === DROPS_UNALLOCATED && !wanted.rules.some((one) => one.comment === DROPS_UNALLOCATED)
  const expected = wanted.rules.map(text)
  const actual = found.rules.filter((rule) => !isOptional(rule)).map(text)
  if (sameSequence(expected, actual)) return
  const { missing, stale } = multisetDifference(expected, actual)
  for (const rule of missing)
    findings.push({ kind: 'missing', where, expected: rule, text: `chain ${name}: missing rule "${rule}"` })
  for (const rule of stale)
    findings.push({ kind: 'stale', where, actual: rule, text: `chain ${name}: stale rule "${rule}"` })
  if (missing.length + stale.length > 0) return
  const moved = misplaced(expected, actual)[0] ?? ''
  const sentence = `chain ${name}: rule "${moved}" is in the wrong place`
  findings.push({ kind: 'order', where, expected: expected.join('\n'), actual: actual.join('\n'), text: sentence })
}

function compareSets(wanted: NftTable, found: NftTable, findings: Finding[]): void {
  // The elements of affinity sets change with every connection; the branches behind the maps show whether affinity is
  // configured.
  const names = (table: NftTable) => [...table.sets.keys()].filter((name) => !name.startsWith(AFFINITY))
  for (const name of new Set([...names(wanted), ...names(found)]))
    compareMembers(wanted, `set ${name}`, wanted.sets.get(name)?.elements, found.sets.get(name)?.elements, findings)
}

function compareMaps(wanted: NftTable, found: NftTable, findings: Finding[]): void {
  for (const name of new Set([...wanted.maps.keys(), ...found.maps.keys()])) {
    const expected = wanted.maps.get(name)?.elements
    const actual = found.maps.get(name)?.elements
    compareMembers(wanted, `map ${name}`, keys(expected), keys(actual), findings)
    for (const [key, verdict] of expected ?? []) {
      const there = actual?.get(key)
      if (there === undefined) continue
      const should = branchesOf(wanted, verdict).map(describeBranch)
      const does = branchesOf(found, there).map(describeBranch)
      if (sameSequence(should, does)) continue
      const where = { nft: titleOf(wanted), part: `map ${name}` }
      const text = `map ${name}: ${key} leads to ${does.join('; ') || 'nothing'}, not to ${should.join('; ')}`
      findings.push({ kind: 'wrong', where, expected: should.join('\n'), actual: does.join('\n'), text })
    }
  }
}

const keys = (elements: ReadonlyMap<string, string> | undefined): ReadonlySet<string> | undefined =>
  elements && new Set(elements.keys())

function compareMembers(
  table: NftTable,
  part: string,
  wanted: ReadonlySet<string> | undefined,
  found: ReadonlySet<string> | undefined,
  findings: Finding[],
): void {
  const where = { nft: titleOf(table), part }
  if (wanted && !found) findings.push({ kind: 'missing', where, expected: part, text: `${part} is missing` })
  if (found && !wanted) findings.push({ kind: 'stale', where, actual: part, text: `${part} is stale` })
  if (!wanted || !found) return
  for (const element of wanted)
    if (!found.has(element))
      findings.push({ kind: 'missing', where, expected: element, text: `${part}: missing element ${element}` })
  for (const element of found)
    if (!wanted.has(element))
      findings.push({ kind: 'stale', where, actual: element, text: `${part}: stale element ${element}` })
}

/** The chains that a map element or a rule of another chain leads to. */
function reachable({ chains, maps }: NftTable): ReadonlySet<string> {
  const targets = new Set<string>()
  const add = (text: string) => {
    for (const [, target = ''] of text.matchAll(/\b(?:goto|jump) ([^\s,]+)/g)) targets.add(target)
  }
  for (const { elements } of maps.values()) for (const verdict of elements.values()) add(verdict)
  for (const { rules } of chains.values()) for (const { text } of rules) add(text)
  return targets
}
