import type { Ruleset, Table } from '../../../dataplane/iptables-save.ts'
import { targetOf } from '../../../dataplane/rule.ts'

/** Where balancing from a chain ends, with probabilities, for a new client from outside of this node's Pods. */
export function walk(nat: Table, chain: string, share = 1, ends = new Map<string, number>()): Map<string, number> {
  let left = share
  for (const { spec } of nat.get(chain)?.rules ?? []) {
    const target = targetOf(spec)
    // Marks come back, and a new client was not seen recently.
    if (target === undefined || target.startsWith('KUBE-MARK-') || spec.includes('--rcheck')) continue
    if (/--src-type LOCAL|(^|[^!] )-s |(^|[^!] )-i /.test(spec)) continue
    const destination = /--to-destination (\S+)/.exec(spec)?.[1]
    if (destination !== undefined) {
      ends.set(destination, (ends.get(destination) ?? 0) + left)
      return ends
    }
    const taken = left * Number(/--probability (\S+)/.exec(spec)?.[1] ?? 1)
    walk(nat, target, taken, ends)
    left -= taken
    if (left <= 0) break
  }
  return ends
}

const BUILT_IN_TARGETS = new Set(['ACCEPT', 'DROP', 'RETURN', 'REJECT', 'DNAT', 'MASQUERADE', 'MARK', 'REDIRECT'])

/** Chains that rules lead to but that do not exist, and chains of single Services that nothing leads to. */
export function danglingReferences(ruleset: Ruleset): string[] {
  const faults: string[] = []
  for (const [table, chains] of ruleset) {
    const referenced = new Set<string>()
    for (const chain of chains.values())
      for (const { spec } of chain.rules) {
        const target = targetOf(spec)
        if (target === undefined || BUILT_IN_TARGETS.has(target)) continue
        referenced.add(target)
        if (!chains.has(target)) faults.push(`${table} ${chain.name} leads to ${target}, which is missing`)
      }
    for (const chain of chains.values())
      if (chain.policy === '-' && !referenced.has(chain.name)) faults.push(`${table} ${chain.name} is not used`)
  }
  return faults
}
