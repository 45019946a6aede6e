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
  remembered?: number
  /** The rule that kube-proxy does not write, if the end is `unknown`. */
  rule?: string
}

/** Limits recursion for a chain that leads to itself; nf_tables allows 16 jumps (NFT_JUMP_STACK_SIZE). */
const DEEPEST = 16

interface Path {
  when: string[]
  masqueraded: string[]
  remembered?: number
}

type Action =
  | { kind: 'goto' | 'jump'; chain: string }
  | { kind: 'drop' | 'reject' | 'none' }
  | { kind: 'choose'; chains: string[] }
  | { kind: 'dnat'; endpoints: string[] }
  | { kind: 'remember'; set: string }
  | { kind: 'unknown' }

const SET_MARK = / ?\bmeta mark set meta mark \| 0x[0-9a-f]{8}$/
const SET_MARK_AND_GO = / ?\bmeta mark set meta mark \| 0x[0-9a-f]{8}(?= goto )/
const CHOICE = /^numgen random mod \d+ vmap \{ (.*) \}$/
const DNAT_CHOICE =
  /^meta l4proto (?:tcp|udp|sctp) dnat (?:ip6? )?(?:addr \. port )?to numgen random mod \d+ map \{ (.*) \}$/
const DNAT = /^meta l4proto (?:tcp|udp|sctp) dnat (?:ip6? )?to (\S+)$/
const REMEMBER = /^update @(\S+) \{ ip6? saddr \}$/
const VERDICT = /^(?:(.*) )?(?:(goto|jump) (\S+)|(drop|reject))$/

const values = (pairs: string): string[] => pairs.split(', ').map((pair) => pair.slice(pair.indexOf(' : ') + 3))
/** `10.244.1.2 . 80` as `10.244.1.2:80`, with brackets for IPv6. */
function joined(concat: string): string {
  const [address = '', port = ''] = concat.split(' . ')
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
}

function readRule(text: string): { when: string; marks: boolean; action: Action } {
  const rest = text.replace(SET_MARK, '').replace(SET_MARK_AND_GO, '').trim()
  const marks = rest !== text.trim()
  const plain = (action: Action) => ({ when: '', marks, action })
  const choice = CHOICE.exec(rest)?.[1]
  if (choice !== undefined)
    return plain({ kind: 'choose', chains: values(choice).map((to) => to.replace(/^goto /, '')) })
  const map = DNAT_CHOICE.exec(rest)?.[1]
  if (map !== undefined) return plain({ kind: 'dnat', endpoints: values(map).map(joined) })
  const endpoint = DNAT.exec(rest)?.[1]
  if (endpoint !== undefined) return plain({ kind: 'dnat', endpoints: [endpoint] })
  const set = REMEMBER.exec(rest)?.[1]
  if (set !== undefined) return plain({ kind: 'remember', set })
  const [, when = '', jump, chain = '', verdict] = VERDICT.exec(rest) ?? []
  if (jump === 'goto' || jump === 'jump') return { when, marks, action: { kind: jump, chain } }
  if (verdict === 'drop' || verdict === 'reject') return { when, marks, action: { kind: verdict } }
  return marks ? { when: rest, marks, action: { kind: 'none' } } : { when: '', marks, action: { kind: 'unknown' } }
}

const end = (path: Path, kind: NftBranch['end'], rule?: string): NftBranch => ({
  ...path,
  end: kind,
  endpoints: new Map(),
  of: 0,
  ...(rule === undefined ? {} : { rule }),
})

/** Merges the branches of a choice among endpoint chains into one: each chain leads to one endpoint. */
function chosen(table: NftTable, path: Path, chains: readonly string[], depth: number): NftBranch {
  const endpoints = new Map<string, number>()
  const masqueraded = new Set(path.masqueraded)
  let { remembered } = path
  for (const chain of chains) {
    const [branch] = walk(table, chain, { when: path.when, masqueraded: [] }, depth)
    if (branch?.end !== 'dnat') return branch ?? end(path, 'unknown', `goto ${chain}`)
    for (const [endpoint, times] of branch.endpoints) endpoints.set(endpoint, (endpoints.get(endpoint) ?? 0) + times)
    for (const condition of branch.masqueraded) masqueraded.add(condition)
    remembered = branch.remembered ?? remembered
  }
  const branch = { ...path, end: 'dnat' as const, endpoints, of: chains.length, masqueraded: [...masqueraded] }
  return remembered === undefined ? branch : { ...branch, remembered }
}

function walk(table: NftTable, name: string, from: Path, depth: number): NftBranch[] {
  const chain = table.chains.get(name)
  if (!chain || depth > DEEPEST) return [end(from, 'unknown', `goto ${name}`)]
  const branches: NftBranch[] = []
  const path: Path = { ...from, masqueraded: [...from.masqueraded] }
  for (const { text } of chain.rules) {
    const { when, marks, action } = readRule(text)
    const condition = when === '' ? path.when : [...path.when, when]
    const marked = marks || (action.kind === 'jump' && action.chain === 'mark-for-masquerade')
    const further = { ...path, when: condition, masqueraded: marks ? [...path.masqueraded, ''] : path.masqueraded }
    if (action.kind === 'goto') branches.push(...walk(table, action.chain, further, depth + 1))
    else if (action.kind === 'choose') branches.push(chosen(table, further, action.chains, depth + 1))
    else if (action.kind === 'drop' || action.kind === 'reject') branches.push(end(further, action.kind))
    else if (action.kind === 'dnat') branches.push(translated(further, action.endpoints))
    else if (action.kind === 'remember') path.remembered = table.sets.get(action.set)?.timeout ?? 0
    else if (marked) path.masqueraded.push(when)
    else branches.push(end(further, 'unknown', text))
    const leaves = when === '' && !['jump', 'remember', 'none', 'unknown'].includes(action.kind)
    if (leaves) return branches
  }
  return branches
}

function translated(path: Path, list: readonly string[]): NftBranch {
  const endpoints = new Map<string, number>()
  for (const endpoint of list) endpoints.set(endpoint, (endpoints.get(endpoint) ?? 0) + 1)
  return { ...path, end: 'dnat', endpoints, of: list.length }
}

/**
 * The branches that an element of a verdict map leads to, independent of the names and division of chains, which depend
 * on kube-proxy's version. Empty if a packet returns without a verdict.
 * @param verdict `goto CHAIN`, `drop`
 */
export function branchesOf(table: NftTable, verdict: string): NftBranch[] {
  const none: Path = { when: [], masqueraded: [] }
  const chain = /^goto (\S+)$/.exec(verdict)?.[1]
  if (chain !== undefined) return walk(table, chain, none, 0)
  return [verdict === 'drop' ? end(none, 'drop') : end(none, 'unknown', verdict)]
}

/** Describes a branch in one line, with endpoints in sorted order. */
export function describeBranch({ when, end, endpoints, of, masqueraded, remembered, rule }: NftBranch): string {
  const share = (times: number) => (times * endpoints.size === of ? '' : ` (${times} of ${of})`)
  const all = [...endpoints].map(([endpoint, times]) => `${endpoint}${share(times)}`).sort()
  const ends = { dnat: `dnat to ${all.join(' or ')}`, drop: 'drop', reject: 'reject', unknown: `"${rule}"` }
  const conditions = [...new Set(masqueraded)].sort()
  const always = conditions.includes('')
  const mark = conditions.length === 0 ? '' : `, masqueraded${always ? '' : ` if ${conditions.join(' or ')}`}`
  const sticky = remembered === undefined ? '' : `, session affinity for ${remembered} s`
  const senders = when.join(', ')
  return `${senders === '' ? '' : `${senders}: `}${ends[end]}${mark}${sticky}`
}
