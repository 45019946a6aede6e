// Output of `iptables-save`:  *nat / :KUBE-SERVICES - [0:0] / -A KUBE-SERVICES … / COMMIT

import { LineError, ParseError, readLines } from './program-output.ts'

/**
 * One rule. `spec` is the text after `-A CHAIN `, exactly as iptables-save prints it (no counters).
 */
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

const TABLE_NAME = /^[A-Za-z0-9_-]+$/
const CHAIN = /^:([^ ]+) ([^ ]+)(?: \[(\d+):(\d+)\])?\s*$/
const COUNTERS = /^\[(\d+):(\d+)\] /
const APPEND = '-A '

/**
 * Reads the output of `iptables-save` or `iptables-save -c` (legacy or nf_tables, v4 or v6). Rules
 * keep their raw text (see parseRule). If a table is listed twice, the later one replaces the
 * earlier: when another table is first used while the kernel's list of tables
 * (/proc/net/ip_tables_names) is read, iptables-save prints a table again. Throws ParseError for
 * any other line, an undeclared or twice declared chain, and for text that ends before COMMIT (a
 * truncated capture).
 */
export function parseIptablesSave(text: string): Ruleset {
  const ruleset: Ruleset = new Map()
  let table: Table | undefined
  const current = (what: string): Table => {
    if (!table) throw new LineError(`${what} outside any table`)
    return table
  }
  const lines = readLines('iptables-save', text, (line) => {
    switch (line.charAt(0)) {
      case '-':
      case '[':
        return readRule(line, current('a rule'))
      case ':':
        return readChain(line, current('a chain'))
      case '*':
        if (table) throw new LineError('a table begins before the COMMIT of the previous one')
        table = new Map()
        ruleset.set(readTableName(line), table)
        return
      case '#':
        return
    }
    const word = line.trimEnd()
    if (word === 'COMMIT') {
      current('COMMIT')
      table = undefined
    } else if (word.trim() !== '') throw new LineError('not a line of iptables-save')
  })
  if (table) throw new ParseError('iptables-save', lines + 1, '', 'the text ends before COMMIT')
  return ruleset
}

function readTableName(line: string): string {
  const name = line.slice(1).trimEnd()
  if (!TABLE_NAME.test(name)) throw new LineError('not a table name')
  return name
}

function readChain(line: string, table: Table): void {
  const [, name, policy = '', packets, bytes] = CHAIN.exec(line) ?? []
  if (name === undefined)
    throw new LineError('not a chain line of the form ":NAME POLICY [packets:bytes]"')
  if (table.has(name)) throw new LineError('this chain is declared twice')
  // Not spread: fields that are added to a copied object take V8 more time and memory than all
  // others.
  if (packets === undefined) table.set(name, { name, policy, rules: [] })
  else table.set(name, { name, policy, packets: Number(packets), bytes: Number(bytes), rules: [] })
}

function readRule(line: string, table: Table): void {
  const [prefix = '', packets, bytes] = (line.startsWith('[') && COUNTERS.exec(line)) || []
  if (!line.startsWith(APPEND, prefix.length))
    throw new LineError('not a rule line of the form "-A CHAIN …"')
  const start = prefix.length + APPEND.length
  const space = line.indexOf(' ', start)
  const end = space === -1 ? line.length : space
  const chain = table.get(line.slice(start, end))
  if (!chain) throw new LineError('a rule of a chain that this table does not declare')
  const spec = line.slice(end + 1)
  const rule = packets === undefined ? { spec } : { spec, ...counters(packets, bytes) }
  // A push that outgrows a list reserves 17 places or more (V8); most chains have two rules.
  const [first] = chain.rules
  if (!first) chain.rules = [rule]
  else if (chain.rules.length === 1) chain.rules = [first, rule]
  else chain.rules.push(rule)
}

const counters = (packets: string | undefined, bytes: string | undefined) =>
  packets === undefined ? {} : { packets: Number(packets), bytes: Number(bytes) }

/**
 * Prints a ruleset as `iptables-save` does, without its dated comment lines; with `counters` as
 * `iptables-save -c` does. The text is also what `iptables-restore` reads. Unknown counters print
 * as 0.
 */
export function printIptablesSave(ruleset: Ruleset, options: { counters?: boolean } = {}): string {
  const lines: string[] = []
  for (const [name, table] of ruleset) {
    lines.push(`*${name}`)
    const chains = [...table.values()]
    for (const chain of chains) lines.push(`:${chain.name} ${chain.policy} ${printCounters(chain)}`)
    for (const chain of chains) printChainRules(chain, options.counters, lines)
    lines.push('COMMIT')
  }
  // The empty text at the end ends the last line.
  if (lines.length > 0) lines.push('')
  return lines.join('\n')
}

/** Adds the line of each rule of a chain to `lines`. */
function printChainRules(
  { name, rules }: Chain,
  withCounters: boolean | undefined,
  lines: string[],
): void {
  for (const rule of rules) {
    const counters = withCounters ? `${printCounters(rule)} ` : ''
    lines.push(`${counters}-A ${name}${rule.spec === '' ? '' : ` ${rule.spec}`}`)
  }
}

const printCounters = ({ packets = 0, bytes = 0 }: Rule | Chain): string => `[${packets}:${bytes}]`
