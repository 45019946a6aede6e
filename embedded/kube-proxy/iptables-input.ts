import type { Ruleset, Table } from '../../dataplane/iptables-save.ts'
import { isBuiltIn } from '../../dataplane/kube-proxy/ruleset-builder.ts'

/** Chains that kube-proxy only makes sure of: their rules are the kubelet's (up to 1.26), or they have none. */
const isEnsuredOnly = (table: string, chain: string) =>
  chain === 'KUBE-PROXY-CANARY' || `${table} ${chain}` === 'nat KUBE-MARK-DROP'

export interface TableChange {
  /** What to write: predicted chains. */
  wanted: Table
  /** What stands there; undefined when only `write` is to be written and nothing is known of the rest. */
  held?: Table
  /** Chains to write; all of `wanted` when missing. */
  write?: ReadonlySet<string>
  /** Chains to delete, which no written chain leads to any more. */
  remove?: readonly string[]
}

/**
 * Input of `iptables-restore --noflush` that rewrites kube-proxy's own chains of one table in one step, as kube-proxy does:
 * each is emptied and filled again, missing jumps are put in front of the built-in chains (EnsureRule with Prepend) and
 * those that stand stay where they are.
 */
export function tableInput(name: string, { wanted, held, write, remove = [] }: TableChange): string {
  const lines: string[] = []
  const rules: string[] = []
  for (const chain of wanted.values()) {
    if (isBuiltIn(name, chain.name)) {
      if (held) rules.push(...missingJumps(chain.name, chain.rules, held.get(chain.name)?.rules ?? []))
      continue
    }
    if (write && !write.has(chain.name)) continue
    if (isEnsuredOnly(name, chain.name)) {
      if (held && !held.has(chain.name)) lines.push(`:${chain.name} - [0:0]`)
      continue
    }
    lines.push(`:${chain.name} - [0:0]`)
    for (const { spec } of chain.rules) rules.push(`-A ${chain.name} ${spec}`)
  }
  // Declaring a chain empties it, so that chains which lead to each other can be deleted in any order.
  lines.push(...remove.map((chain) => `:${chain} - [0:0]`))
  rules.push(...remove.map((chain) => `-X ${chain}`))
  if (lines.length + rules.length === 0) return ''
  return `*${name}\n${[...lines, ...rules].join('\n')}\nCOMMIT\n`
}

/** The predicted order is that of an untouched node, where the last rule ensured came first. */
function missingJumps(chain: string, wanted: readonly { spec: string }[], held: readonly { spec: string }[]): string[] {
  const standing = new Set(held.map(({ spec }) => spec))
  return wanted
    .filter(({ spec }) => !standing.has(spec))
    .reverse()
    .map(({ spec }) => `-I ${chain} ${spec}`)
}

/** All predicted tables at once: what a full sync writes. `remove` names stale chains of the nat table. */
export function fullInput(wanted: Ruleset, held: Ruleset, remove: readonly string[]): string {
  let input = ''
  for (const [name, table] of wanted)
    input += tableInput(name, {
      wanted: table,
      held: held.get(name) ?? new Map(),
      remove: name === 'nat' ? remove : [],
    })
  return input
}
