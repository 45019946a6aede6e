import { isKubeProxyChain, isSharedChain } from '../../compare/ownership.ts'
import type { Chain, Ruleset, Table } from '../../iptables-save.ts'
import { targetOf } from '../../rule-text.ts'

const EMPTY: Table = new Map()

/** The kubelet's to fill, kube-proxy's only to have. */
const isEnsuredOnly = (table: string, chain: string): boolean => table === 'nat' && chain === 'KUBE-MARK-DROP'

const sameRules = (a: Chain, b: Chain): boolean =>
  a.rules.length === b.rules.length && a.rules.every((rule, index) => rule.spec === b.rules[index]?.spec)

/** Jumps out of a chain that is not kube-proxy's into one that is. */
const jumps = (chain: Chain | undefined): string[] =>
  (chain?.rules ?? []).map((rule) => rule.spec).filter((spec) => isKubeProxyChain(targetOf(spec) ?? ''))

interface TableChanges {
  declared: string[]
  removedJumps: string[]
  insertedJumps: string[]
  rules: string[]
  deleted: string[]
}

function changeOwnChain(
  table: string,
  wanted: Chain | undefined,
  found: Chain | undefined,
  changes: TableChanges,
): void {
  const name = (wanted ?? found)?.name ?? ''
  if (!wanted) {
    if (isSharedChain(table, name)) return
    // Declaring a chain flushes it, so that no rule of it holds another stale chain.
    changes.declared.push(`:${name} - [0:0]`)
    changes.deleted.push(`-X ${name}`)
    return
  }
  if (found && (isEnsuredOnly(table, name) || sameRules(wanted, found))) return
  changes.declared.push(`:${name} - [0:0]`)
  for (const { spec } of wanted.rules) changes.rules.push(`-A ${name} ${spec}`)
}

function changeJumps(
  table: string,
  chain: string,
  wanted: Chain | undefined,
  found: Chain | undefined,
  changes: TableChanges,
): void {
  const expected = jumps(wanted)
  const present = jumps(found)
  const targets = new Set(expected)
  const standing = new Set(present)
  for (const spec of present)
    if (!targets.has(spec) && !isSharedChain(table, targetOf(spec) ?? ''))
      changes.removedJumps.push(`-D ${chain} ${spec}`)
  // Each goes to the front, so the last one inserted comes first.
  for (const spec of expected.reverse()) if (!standing.has(spec)) changes.insertedJumps.push(`-I ${chain} ${spec}`)
}

function tableChanges(table: string, wanted: Table, found: Table): string[] {
  const changes: TableChanges = { declared: [], removedJumps: [], insertedJumps: [], rules: [], deleted: [] }
  for (const chain of new Set([...wanted.keys(), ...found.keys()])) {
    const change = isKubeProxyChain(chain) ? changeOwnChain : undefined
    if (change) change(table, wanted.get(chain), found.get(chain), changes)
    else changeJumps(table, chain, wanted.get(chain), found.get(chain), changes)
  }
  return [...changes.declared, ...changes.removedJumps, ...changes.insertedJumps, ...changes.rules, ...changes.deleted]
}

/**
 * Input of `iptables-restore --noflush` (ip6tables-restore for IPv6) that takes kube-proxy's chains and jumps from
 * `present` to `target`, each table in one step; chains and rules of others are not mentioned. Empty when equal.
 */
export function iptablesRestoreInput(target: Ruleset, present: Ruleset): string {
  let text = ''
  for (const table of new Set([...target.keys(), ...present.keys()])) {
    const lines = tableChanges(table, target.get(table) ?? EMPTY, present.get(table) ?? EMPTY)
    if (lines.length > 0) text += `*${table}\n${lines.join('\n')}\nCOMMIT\n`
  }
  return text
}
