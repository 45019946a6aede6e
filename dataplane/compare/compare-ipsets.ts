import type { IpSet, IpSets } from '../ipset-save.ts'
import { type CompareOptions, type Finding, isKubeProxySet } from './finding.ts'

/** Options of a create line that differ between nodes or tool versions and have no effect on matching. */
const IGNORED_OPTIONS = new Set(['hashsize', 'bucketsize', 'initval', 'maxelem', 'counters', 'comment'])

/** Compares kube-proxy's sets: their names, types, families and members (unordered). */
export function compareIpsets(expected: IpSets, actual: IpSets, options: CompareOptions): Finding[] {
  const findings: Finding[] = []
  for (const name of new Set([...expected.keys(), ...actual.keys()])) {
    const where = { set: name }
    if (!isKubeProxySet(name) || options.foreign?.(where)) continue
    const wanted = expected.get(name)
    const found = actual.get(name)
    if (wanted && !found) {
      const text = `ipset ${name} is missing (${membersOf(wanted)})`
      findings.push({ kind: 'missing', where, expected: createLine(wanted), text })
    } else if (found && !wanted) {
      const text = `ipset ${name} is stale (${membersOf(found)}): mode ${options.mode} does not use it`
      findings.push({ kind: 'stale', where, actual: createLine(found), text })
    } else if (wanted && found) {
      compareSet(wanted, found, findings)
    }
  }
  return findings
}

function compareSet(wanted: IpSet, found: IpSet, findings: Finding[]): void {
  const where = { set: wanted.name }
  const expected = createLine(wanted)
  const actual = createLine(found)
  if (expected !== actual) {
    findings.push({
      kind: 'wrong',
      where,
      expected,
      actual,
      text: `ipset ${wanted.name} is "${actual}", not "${expected}"`,
    })
  }
  for (const member of wanted.members) {
    if (found.members.has(member)) continue
    const line = `add ${wanted.name} ${member}`
    findings.push({ kind: 'missing', where, expected: line, text: `ipset ${wanted.name}: missing member ${member}` })
  }
  for (const member of found.members) {
    if (wanted.members.has(member)) continue
    const line = `add ${wanted.name} ${member}`
    findings.push({ kind: 'stale', where, actual: line, text: `ipset ${wanted.name}: stale member ${member}` })
  }
}

function createLine(set: IpSet): string {
  const options = Object.entries(set.options)
    .filter(([option]) => !IGNORED_OPTIONS.has(option))
    .sort(([a], [b]) => (a < b ? -1 : 1))
  return ['create', set.name, set.type, ...options.map(([option, value]) => `${option} ${value}`.trimEnd())].join(' ')
}

function membersOf(set: IpSet): string {
  return set.members.size === 1 ? '1 member' : `${set.members.size} members`
}
