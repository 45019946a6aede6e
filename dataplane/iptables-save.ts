// Output of `iptables-save`:  *nat / :KUBE-SERVICES - [0:0] / -A KUBE-SERVICES … / COMMIT

import { eachLine, ParseError } from './program-output.ts'

/** One rule. `spec` is the text after `-A CHAIN `, exactly as iptables-save prints it (no counters). */
export interface Rule {
  spec: string
  packets?: number
  bytes?: number
}

/** One chain: `policy` is ACCEPT or DROP for built-in chains, `-` for user-defined chains. */
export interface Chain {
  name: string
  policy: string
  packets?: number
  bytes?: number
  rules: Rule[]
}

/** Chains of one table by name, in the order they were declared. */
export type Table = Map<string, Chain>

/** Tables by name (nat, filter, mangle, …). */
export type Ruleset = Map<string, Table>

const SOURCE = 'iptables-save'
const COUNTERS = /^\[(\d+):(\d+)\]$/
const RULE_COUNTERS = /^\[(\d+):(\d+)\] /
const TABLE_NAME = /^[A-Za-z0-9_-]+$/

/**
 * Reads the output of `iptables-save` or `iptables-save -c` (legacy or nf_tables, v4 or v6). Rules keep their raw text (see
 * parseRule). If a table is listed twice, the later one replaces the earlier: when another table is first used while the kernel's
 * list of tables (/proc/net/ip_tables_names) is read, iptables-save prints a table again. Throws ParseError for any other line,
 * an undeclared or twice declared chain, and for text that ends before COMMIT (a truncated capture).
 */
export function parseIptablesSave(text: string): Ruleset {
  const ruleset: Ruleset = new Map()
  let table: Table | undefined
  let chain: Chain | undefined
  let lastNumber = 0
  eachLine(text, (line, number) => {
    lastNumber = number
    const fail = (fault: string) => new ParseError(SOURCE, number, line, fault)
    const first = line.charAt(0)
    if (first === '-' || first === '[') {
      if (!table) throw fail('a rule outside any table')
      chain = readRule(line, table, chain, fail)
    } else if (first === ':') {
      if (!table) throw fail('a chain outside any table')
      const declared = readChain(line, fail)
      if (table.has(declared.name)) throw fail('this chain is declared twice')
      table.set(declared.name, declared)
    } else if (first === '*') {
      if (table) throw fail('a table begins before the COMMIT of the previous one')
      const name = line.slice(1).trimEnd()
      if (!TABLE_NAME.test(name)) throw fail('not a table name')
      table = new Map()
      chain = undefined
      ruleset.set(name, table)
    } else if (line.trimEnd() === 'COMMIT') {
      if (!table) throw fail('COMMIT outside any table')
      table = undefined
    } else if (first !== '#' && line.trim() !== '') {
      throw fail('not a line of iptables-save')
    }
  })
  if (table) throw new ParseError(SOURCE, lastNumber + 1, '', 'the text ends before COMMIT')
  return ruleset
}

type Fail = (fault: string) => ParseError

function readChain(line: string, fail: Fail): Chain {
  const [name = '', policy = '', counters, ...rest] = line.slice(1).trimEnd().split(' ')
  const counted = counters === undefined ? undefined : COUNTERS.exec(counters)
  if (name === '' || policy === '' || rest.length > 0 || counted === null) {
    throw fail('not a chain line of the form ":NAME POLICY [packets:bytes]"')
  }
  if (!counted) return { name, policy, rules: [] }
  return { name, policy, packets: Number(counted[1]), bytes: Number(counted[2]), rules: [] }
}

/** Adds the rule to its chain and returns the chain: rules of one chain are adjacent, so the next one usually needs no lookup. */
function readRule(line: string, table: Table, last: Chain | undefined, fail: Fail): Chain {
  const counted = line.startsWith('[') ? RULE_COUNTERS.exec(line) : undefined
  const append = counted ? counted[0].length : 0
  if (counted === null || !line.startsWith('-A ', append)) {
    throw fail('not a rule line of the form "-A CHAIN …"')
  }
  const nameStart = append + 3
  const space = line.indexOf(' ', nameStart)
  const nameEnd = space === -1 ? line.length : space
  const sameChain = last && nameEnd - nameStart === last.name.length && line.startsWith(last.name, nameStart)
  const chain = sameChain ? last : table.get(line.slice(nameStart, nameEnd))
  if (!chain) throw fail('a rule of a chain that this table does not declare')
  const spec = space === -1 ? '' : line.slice(space + 1)
  chain.rules.push(counted ? { spec, packets: Number(counted[1]), bytes: Number(counted[2]) } : { spec })
  return chain
}

/**
 * Prints a ruleset as `iptables-save` does, without its dated comment lines; with `counters` as `iptables-save -c` does.
 * The text is also what `iptables-restore` reads. Unknown counters print as 0.
 */
export function printIptablesSave(ruleset: Ruleset, options: { counters?: boolean } = {}): string {
  const lines: string[] = []
  for (const [name, table] of ruleset) {
    lines.push(`*${name}`)
    for (const chain of table.values()) {
      lines.push(`:${chain.name} ${chain.policy} [${chain.packets ?? 0}:${chain.bytes ?? 0}]`)
    }
    for (const chain of table.values()) {
      for (const rule of chain.rules) {
        const counters = options.counters ? `[${rule.packets ?? 0}:${rule.bytes ?? 0}] ` : ''
        lines.push(`${counters}-A ${chain.name}${rule.spec === '' ? '' : ` ${rule.spec}`}`)
      }
    }
    lines.push('COMMIT')
  }
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`
}
