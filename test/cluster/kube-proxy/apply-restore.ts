import type { Ruleset } from '../../../dataplane/iptables-save.ts'
import { targetOf } from '../../../dataplane/rule.ts'

/**
 * Carries out the input of `iptables-restore --noflush` on a ruleset, with the refusals of the real one: a rule to delete
 * must be there, a chain to delete must be empty and led to by no rule.
 */
export function applyRestore(ruleset: Ruleset, input: string): Ruleset {
  const result = structuredClone(ruleset)
  let table = new Map()
  for (const line of input.split('\n')) {
    const [, verb, chain, spec] = /^(-[AIDX]) (\S+)(?: (.*))?$/.exec(line) ?? []
    if (line.startsWith('*')) table = result.get(line.slice(1)) ?? new Map()
    else if (line.startsWith(':')) {
      const name = line.slice(1).split(' ')[0] ?? ''
      table.set(name, { name, policy: '-', rules: [] })
    } else if (verb === '-D') {
      const rules = table.get(chain)?.rules ?? []
      const at = rules.findIndex((rule: { spec: string }) => rule.spec === spec)
      if (at === -1) throw new Error(`no such rule: ${line}`)
      rules.splice(at, 1)
    } else if (verb === '-X') {
      if (table.get(chain)?.rules.length !== 0) throw new Error(`not an empty chain: ${line}`)
      for (const other of table.values())
        for (const rule of other.rules)
          if (targetOf(rule.spec) === chain)
            throw new Error(`${chain} is referenced: -A ${other.name} ${rule.spec}`)
      table.delete(chain)
    } else if (line !== '' && line !== 'COMMIT') throw new Error(`unexpected line: ${line}`)
  }
  return result
}
