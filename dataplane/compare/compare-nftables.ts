import { misplaced, multisetDifference, pairsOf, sameSequence } from '../collections.ts'
import { AFFINITY_PREFIX, isServicePortChain } from '../kube-proxy/nftables/builder.ts'
import { branchesOf, describeBranch } from '../kube-proxy/nftables/service-branches.ts'
import { DROPS_UNALLOCATED } from '../kube-proxy/nftables/static-chains.ts'
import { withSameAddresses } from '../nft-addresses.ts'
import {
  KUBE_PROXY_TABLE,
  type NftChain,
  type NftRule,
  type NftTable,
  nftTitle,
} from '../nft-table.ts'
import {
  type CompareOptions,
  compareMembers,
  type Difference,
  onlyOnOneSide,
} from './difference.ts'

const hookOf = ({ base }: NftChain): string =>
  base ? `${base.type} ${base.hook} ${base.priority}` : ''
/** nft(8): a base chain without a policy has "accept". */
const policyOf = ({ base }: NftChain): string => base?.policy ?? 'accept'

/**
 * Compares kube-proxy's own tables: sets and maps by element, base chains and chains that belong to
 * no Service by rule, and the final targets of each map element. The division and names of Service
 * chains, which depend on the version, are not compared. An empty chain of a deleted Service is
 * ignored: kube-proxy flushes chains first and deletes them later.
 */
export function compareNftables(
  expected: readonly NftTable[],
  actual: readonly NftTable[],
  { mode }: CompareOptions,
): Difference[] {
  const byTitle = (tables: readonly NftTable[]) =>
    new Map(tables.map((table) => [nftTitle(table), table]))
  const own = byTitle(actual.filter(({ name }) => name === KUBE_PROXY_TABLE))
  return [...pairsOf(byTitle(expected), own)].flatMap(({ key: title, wanted, found }) => {
    const where = { nft: title, part: 'table' }
    if (wanted && found) return [...compareTable(wanted, found)].map(inFamily)
    const size = found ? ` (${found.chains.size} chains)` : ''
    const show = () => ({ line: `table ${title}`, size })
    return onlyOnOneSide(
      where,
      `table ${title}`,
      { wanted, found },
      show,
      `: mode ${mode} does not use it`,
    )
  })
}

/**
 * A difference about rules of IPv6 names the table, because that of IPv4 has the same chains and
 * maps.
 */
function inFamily(difference: Difference): Difference {
  const { where, text } = difference
  return 'nft' in where && where.nft.startsWith('ip6 ')
    ? { ...difference, text: `table ${where.nft}: ${text}` }
    : difference
}

function* compareTable(wanted: NftTable, found: NftTable): Generator<Difference> {
  if (found.dormant && !wanted.dormant) {
    const title = nftTitle(wanted)
    yield {
      kind: 'wrong',
      where: { nft: title, part: 'table' },
      expected: `table ${title}`,
      actual: `table ${title} { flags dormant; }`,
      text: `table ${title} is dormant: no packet meets its rules`,
    }
  }
  // The elements of affinity sets change with every connection; the branches behind the maps show
  // whether affinity is configured.
  const compared = ({ sets }: NftTable) =>
    new Map([...sets].filter(([name]) => !name.startsWith(AFFINITY_PREFIX)))
  for (const { key: name, ...pair } of pairsOf(compared(wanted), compared(found)))
    yield* compareElements(
      nftTitle(wanted),
      `set ${name}`,
      pair.wanted?.elements,
      pair.found?.elements,
    )
  yield* compareMaps(wanted, found)
  for (const [name, chain] of wanted.chains) {
    if (isServicePortChain(name)) continue
    yield* compareChain(nftTitle(wanted), name, chain, atSamePlace(found, name, chain))
  }
  const targets = reachable(found)
  for (const [name, chain] of found.chains) {
    if (
      isServicePortChain(name)
        ? targets.has(name) || chain.rules.length === 0
        : isExpected(wanted, name, chain)
    )
      continue
    const where = { nft: nftTitle(wanted), part: `chain ${name}` }
    const text = `chain ${name} is stale (${chain.rules.length} rules): no rule or map of kube-proxy leads to it`
    yield { kind: 'stale', where, actual: `chain ${name}`, text }
  }
}

/** The chain with the same name, or for a base chain the one with the same hook and priority. */
function atSamePlace(found: NftTable, name: string, chain: NftChain): NftChain | undefined {
  const same = found.chains.get(name)
  if (!chain.base || (same && hookOf(same) === hookOf(chain))) return same
  return [...found.chains.values()].find((other) => hookOf(other) === hookOf(chain))
}

const isExpected = (wanted: NftTable, name: string, chain: NftChain): boolean =>
  wanted.chains.has(name) ||
  (chain.base !== undefined && atSamePlace(wanted, name, chain) !== undefined)

function* compareChain(
  nft: string,
  name: string,
  wanted: NftChain,
  found: NftChain | undefined,
): Generator<Difference> {
  const where = { nft, part: `chain ${name}` }
  const place = wanted.base ? ` at hook ${wanted.base.hook}, priority ${wanted.base.priority}` : ''
  if (!found) {
    yield {
      kind: 'missing',
      where,
      expected: `chain ${name}`,
      text: `chain ${name}${place} is missing`,
    }
    return
  }
  if (wanted.base && policyOf(found) !== policyOf(wanted)) {
    const [expected, actual] = [policyOf(wanted), policyOf(found)].map((one) => `policy ${one}`)
    const text = `chain ${name}${place} has ${actual}, not ${expected}`
    yield { kind: 'wrong', where, expected, actual, text }
  }
  // Without a ServiceCIDR object, the prediction can only guess the Service ranges.
  const text = (rule: NftRule) =>
    rule.comment === DROPS_UNALLOCATED
      ? `${rule.text.split(' ').at(-1)}: ${rule.comment}`
      : withSameAddresses(rule.text)
  // kube-proxy writes the rule in full syncs only (pkg/proxy/nftables, 1.33 and newer): one that
  // learns of the ServiceCIDR after its first sync is without it for up to an hour, and correct.
  const dropsUnallocated = (rule: NftRule) => rule.comment === DROPS_UNALLOCATED
  const bothDrop = [wanted, found].every(({ rules }) => rules.some(dropsUnallocated))
  const comparedIn = ({ rules }: NftChain) =>
    rules.filter((rule) => bothDrop || !dropsUnallocated(rule)).map(text)
  const [expected, actual] = [comparedIn(wanted), comparedIn(found)]
  if (sameSequence(expected, actual)) return
  const { missing, stale } = multisetDifference(expected, actual)
  for (const rule of missing)
    yield { kind: 'missing', where, expected: rule, text: `chain ${name}: missing rule "${rule}"` }
  for (const rule of stale)
    yield { kind: 'stale', where, actual: rule, text: `chain ${name}: stale rule "${rule}"` }
  if (missing.length + stale.length > 0) return
  const sentence = `chain ${name}: rule "${misplaced(expected, actual)[0] ?? ''}" is in the wrong place`
  yield {
    kind: 'order',
    where,
    expected: expected.join('\n'),
    actual: actual.join('\n'),
    text: sentence,
  }
}

function* compareMaps(wanted: NftTable, found: NftTable): Generator<Difference> {
  for (const { key: name, ...pair } of pairsOf(wanted.maps, found.maps)) {
    const part = `map ${name}`
    const [expected, actual] = [pair.wanted?.elements, pair.found?.elements]
    const keysOf = (elements: typeof expected) => elements && new Set(elements.keys())
    yield* compareElements(nftTitle(wanted), part, keysOf(expected), keysOf(actual))
    for (const [key, verdict] of expected ?? []) {
      const there = actual?.get(key)
      if (there === undefined) continue
      const should = branchesOf(wanted, verdict).map(describeBranch)
      const does = branchesOf(found, there).map(describeBranch)
      if (sameSequence(should, does)) continue
      const where = { nft: nftTitle(wanted), part }
      const text = `${part}: ${key} leads to ${does.join('; ') || 'nothing'}, not to ${should.join('; ')}`
      yield { kind: 'wrong', where, expected: should.join('\n'), actual: does.join('\n'), text }
    }
  }
}

function compareElements(
  nft: string,
  part: string,
  wanted: ReadonlySet<string> | undefined,
  found: ReadonlySet<string> | undefined,
): Difference[] {
  const where = { nft, part }
  if (wanted && found)
    return compareMembers(where, part, 'element', { expected: wanted, actual: found })
  return onlyOnOneSide(where, part, { wanted, found }, () => ({ line: part }))
}

function reachable({ chains, maps }: NftTable): ReadonlySet<string> {
  const targets = new Set<string>()
  const add = (text: string) => {
    for (const [, target = ''] of text.matchAll(/\b(?:goto|jump) ([^\s,]+)/g)) targets.add(target)
  }
  for (const { elements } of maps.values()) for (const verdict of elements.values()) add(verdict)
  for (const { rules } of chains.values()) for (const { text } of rules) add(text)
  return targets
}
