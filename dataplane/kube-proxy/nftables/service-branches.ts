import { printEndpoint } from '../../ip-address.ts'
import { withSameAddresses } from '../../nft-addresses.ts'
import type { NftTable } from '../../nft-table.ts'

/** One branch of a Service's chains. A packet takes the first branch whose conditions are true. */
export interface NftBranch {
  /** Conditions on the sender in nft syntax, outermost first; empty for all other senders. */
  when: string[]
  end: 'dnat' | 'drop' | 'reject' | 'unknown'
  /** `ip:port` → in how many of `of` cases; empty unless the end is dnat. */
  endpoints: Map<string, number>
  of: number
  /** Conditions under which the sender is masqueraded; an empty string means always. */
  masqueraded: string[]
  /** Session affinity in seconds. */
  remembered?: number | undefined
  /** The rule that kube-proxy does not write, if the end is `unknown`. */
  rule?: string
}

/**
 * Limits recursion for a chain that leads to itself; nf_tables allows 16 jumps
 * (NFT_JUMP_STACK_SIZE).
 */
const DEEPEST = 16

type Path = Pick<NftBranch, 'when' | 'masqueraded' | 'remembered'>

const SET_MARK = / ?\bmeta mark set meta mark \| 0x[0-9a-f]{8}(?=$| goto )/
const TO_PORT = 'meta l4proto (?:tcp|udp|sctp) dnat (?:ip6? )?'
/**
 * The rules that kube-proxy writes into Service and endpoint chains, without the statement that
 * marks for masquerading.
 */
const RULE = new RegExp(
  `^(?:${[
    'numgen random mod \\d+ vmap \\{ (?<chains>.*) \\}',
    `${TO_PORT}(?:addr \\. port )?to numgen random mod \\d+ map \\{ (?<pairs>.*) \\}`,
    `${TO_PORT}to (?<endpoint>\\S+)`,
    'update @(?<set>\\S+) \\{ ip6? saddr \\}',
    '(?:(?<when>.*) )?(?:(?<jump>goto|jump) (?<chain>\\S+)|(?<verdict>drop|reject))',
  ].join('|')})$`,
)

const values = (pairs: string): string[] =>
  pairs.split(', ').map((pair) => pair.slice(pair.indexOf(' : ') + 3))

/** `10.244.1.2 . 80` as `10.244.1.2:80`. */
function joined(concat: string): string {
  const [address = '', port] = concat.split(' . ')
  return printEndpoint(address, Number(port))
}

const end = (path: Path, kind: NftBranch['end'], rule?: string): NftBranch => {
  return { ...path, end: kind, endpoints: new Map(), of: 0, ...(rule !== undefined && { rule }) }
}

/**
 * Merges the branches of a choice among endpoint chains into one: each chain leads to one endpoint.
 */
function chosen(table: NftTable, path: Path, chains: readonly string[], depth: number): NftBranch {
  const endpoints = new Map<string, number>()
  const masqueraded = new Set(path.masqueraded)
  let { remembered } = path
  for (const chain of chains) {
    const [branch] = walk(table, chain, { when: path.when, masqueraded: [] }, depth)
    if (branch?.end !== 'dnat') return branch ?? end(path, 'unknown', `goto ${chain}`)
    for (const [endpoint, times] of branch.endpoints)
      endpoints.set(endpoint, (endpoints.get(endpoint) ?? 0) + times)
    for (const condition of branch.masqueraded) masqueraded.add(condition)
    remembered = branch.remembered ?? remembered
  }
  return {
    when: path.when,
    end: 'dnat',
    endpoints,
    of: chains.length,
    masqueraded: [...masqueraded],
    remembered,
  }
}

function walk(table: NftTable, name: string, from: Path, depth: number): NftBranch[] {
  const chain = table.chains.get(name)
  if (!chain || depth > DEEPEST) return [end(from, 'unknown', `goto ${name}`)]
  const branches: NftBranch[] = []
  const path: Path = { ...from, masqueraded: [...from.masqueraded] }
  for (const { text } of chain.rules) {
    const { parts, marks } = readBranchRule(text)
    const { set, when = '', chain: target } = parts
    const further = pathOfMatching(path, when, marks)
    const final = finalBranches(table, parts, further, depth + 1)
    if (final) {
      branches.push(...final)
      if (when === '') return branches
    } else if (set !== undefined) path.remembered = table.sets.get(set)?.timeout ?? 0
    else if (marks || target === 'mark-for-masquerade') path.masqueraded.push(when)
    else branches.push(end(further, 'unknown', text))
  }
  return branches
}

type RuleParts = Partial<
  Record<'chains' | 'pairs' | 'endpoint' | 'set' | 'when' | 'jump' | 'chain' | 'verdict', string>
>

/** The parts of a rule, and whether it sets the mark for masquerading. */
function readBranchRule(text: string): { parts: RuleParts; marks: boolean } {
  const rest = text.replace(SET_MARK, '').trim()
  const marks = rest !== text.trim()
  return { parts: RULE.exec(rest)?.groups ?? (marks ? { when: rest } : {}), marks }
}

/** The path of the packets that match a rule. */
const pathOfMatching = (path: Path, when: string, marks: boolean): Path => ({
  ...path,
  when: when === '' ? path.when : [...path.when, when],
  masqueraded: marks ? [...path.masqueraded, ''] : path.masqueraded,
})

/**
 * The branches of a rule after which no packet that matches it reaches the next rule; undefined for
 * other rules.
 */
function finalBranches(
  table: NftTable,
  { chains, pairs, endpoint, jump, chain = '', verdict }: RuleParts,
  path: Path,
  depth: number,
): NftBranch[] | undefined {
  if (jump === 'goto') return walk(table, chain, path, depth)
  if (chains !== undefined) {
    const targets = values(chains).map((to) => to.replace(/^goto /, ''))
    return [chosen(table, path, targets, depth)]
  }
  if (endpoint !== undefined) return [translated(path, [endpoint])]
  if (pairs !== undefined) return [translated(path, values(pairs).map(joined))]
  if (verdict !== undefined) return [end(path, verdict as 'drop' | 'reject')]
  return undefined
}

function translated(path: Path, list: readonly string[]): NftBranch {
  const endpoints = new Map<string, number>()
  for (const endpoint of list) endpoints.set(endpoint, (endpoints.get(endpoint) ?? 0) + 1)
  return { ...path, end: 'dnat', endpoints, of: list.length }
}

/**
 * The branches that an element of a verdict map leads to, independent of the names and division of
 * chains, which depend on kube-proxy's version. Empty if a packet returns without a verdict.
 * @param verdict `goto CHAIN`, `drop`
 */
export function branchesOf(table: NftTable, verdict: string): NftBranch[] {
  const none: Path = { when: [], masqueraded: [] }
  const chain = /^goto (\S+)$/.exec(verdict)?.[1]
  if (chain !== undefined) return walk(table, chain, none, 0)
  return [verdict === 'drop' ? end(none, 'drop') : end(none, 'unknown', verdict)]
}

/** Describes a branch in one line, with endpoints in sorted order. */
export function describeBranch({
  when,
  end,
  endpoints,
  of,
  masqueraded,
  remembered,
  rule,
}: NftBranch): string {
  const share = (times: number) => (times * endpoints.size === of ? '' : ` (${times} of ${of})`)
  const all = [...endpoints].map(([endpoint, times]) => `${endpoint}${share(times)}`).sort()
  const ends = {
    dnat: `dnat to ${all.join(' or ')}`,
    drop: 'drop',
    reject: 'reject',
    unknown: `"${rule}"`,
  }
  const conditions = [...new Set(masqueraded)].sort()
  const always = conditions.includes('')
  const mark =
    conditions.length === 0 ? '' : `, masqueraded${always ? '' : ` if ${conditions.join(' or ')}`}`
  const sticky = remembered === undefined ? '' : `, session affinity for ${remembered} s`
  const senders = when.map(withSameAddresses).join(', ')
  return `${senders === '' ? '' : `${senders}: `}${ends[end]}${mark}${sticky}`
}
