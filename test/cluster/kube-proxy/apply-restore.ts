import type { Ruleset, Table } from '../../../dataplane/iptables-save.ts'
import { targetOf } from '../../../dataplane/rule.ts'

/**
 * Carries out the input of `iptables-restore --noflush` on a ruleset, with the refusals of the real
 * one: a rule to delete must be there, a chain to delete must be empty and led to by no rule.
 */
export function applyRestore(ruleset: Ruleset, input: string): Ruleset {
  const result = structuredClone(ruleset)
  let table: Table = new Map()
  for (const line of input.split('\n')) {
    const [, verb, chain = '', spec = ''] = /^(-[AIDX]) (\S+)(?: (.*))?$/.exec(line) ?? []
    if (line.startsWith('*')) table = result.get(line.slice(1)) ?? new Map()
    else if (line.startsWith(':')) {
      const name = line.slice(1).split(' ')[0] ?? ''
      table.set(name, { name, policy: '-', rules: [] })
    } else if (verb === '-D') deleteRule(table, chain, spec)
    else if (verb === '-X') deleteChain(table, chain)
    else if (line !== '' && line !== 'COMMIT') throw new Error(`unexpected line: ${line}`)
  }
  return result
}

function deleteRule(table: Table, chain: string, spec: string): void {
  const rules = table.get(chain)?.rules ?? []
  const at = rules.findIndex((rule) => rule.spec === spec)
  if (at === -1) throw new Error(`no such rule: -D ${chain} ${spec}`)
  rules.splice(at, 1)
}

function deleteChain(table: Table, name: string): void {
  if (table.get(name)?.rules.length !== 0) throw new Error(`not an empty chain: -X ${name}`)
  for (const { name: other, rules } of table.values())
    for (const { spec } of rules)
      if (targetOf(spec) === name) throw new Error(`${name} is referenced: -A ${other} ${spec}`)
  table.delete(name)
}
