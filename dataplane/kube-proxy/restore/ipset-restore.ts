import { isKubeProxySet } from '../../compare/ownership.ts'
import type { IpSet, IpSets } from '../../ipset-save.ts'

/** Options of a set that cannot be changed later; the rest is the kernel's choice. */
const CREATE_OPTIONS = ['family', 'range', 'hashsize', 'maxelem', 'timeout']

function createLine({ name, type, options }: IpSet): string {
  const words = ['create', name, type]
  for (const option of CREATE_OPTIONS) if (options[option] !== undefined) words.push(option, options[option])
  return words.join(' ')
}

const isSameKind = (a: IpSet, b: IpSet): boolean =>
  a.type === b.type && (a.options.family ?? 'inet') === (b.options.family ?? 'inet')

/**
 * Inputs of `ipset restore`: `before` creates and fills what rules are about to match; `after` takes members and sets
 * away that no rule matches any more. A set of the wrong type is destroyed first, which fails while a rule matches it.
 */
export function ipsetRestoreInput(target: IpSets, present: IpSets): { before: string; after: string } {
  const before: string[] = []
  const after: string[] = []
  for (const [name, wanted] of target) {
    if (!isKubeProxySet(name)) continue
    let found = present.get(name)
    if (found && !isSameKind(wanted, found)) {
      before.push(`destroy ${name}`)
      found = undefined
    }
    if (!found) before.push(createLine(wanted))
    for (const member of wanted.members) if (!found?.members.has(member)) before.push(`add ${name} ${member}`)
    for (const member of found?.members ?? []) if (!wanted.members.has(member)) after.push(`del ${name} ${member}`)
  }
  for (const name of present.keys()) if (isKubeProxySet(name) && !target.has(name)) after.push(`destroy ${name}`)
  const text = (lines: string[]) => lines.map((line) => `${line}\n`).join('')
  return { before: text(before), after: text(after) }
}
