import { BoundedCache } from './bounded-cache.ts'
import { quoteWord, splitWords } from './program-output.ts'

/** A value that a rule requires, or with `!` excludes. */
export interface Negatable<Value> {
  negated: boolean
  value: Value
}

/** The options of one match or target by name, in their order: `--dport` → ['80'], a flag → []. */
export type RuleOptions = Map<string, Negatable<string[]>>

/** One `-m NAME` with its options. */
export interface Match {
  name: string
  options: RuleOptions
}

/** `-j NAME` or `-g NAME` with its options: a target, or a chain of the same table. */
export interface Target {
  name: string
  goto: boolean
  options: RuleOptions
}

/**
 * One rule in typed fields; absent fields match anything. Addresses are prefixes (`10.0.0.1/32`).
 */
export interface ParsedRule {
  source?: Negatable<string>
  destination?: Negatable<string>
  inInterface?: Negatable<string>
  outInterface?: Negatable<string>
  protocol?: Negatable<string>
  fragment?: Negatable<true>
  matches: Match[]
  target?: Target
}

class NotARule extends Error {}

const PROTOCOL_MATCHES = new Set(['tcp', 'udp', 'sctp', 'icmp'])
const PROTOCOL_OPTION = /^--([sd]port|syn|tcp-flags|tcp-option|chunk-types|icmp-type)$/
/**
 * Options with any text as their one value, which iptables-save quotes unless it contains only
 * letters, digits, `-` and `_`.
 */
const TEXT_OPTIONS = new Set([
  '--comment',
  '--log-prefix',
  '--nflog-prefix',
  '--string',
  '--nfacct-name',
])
/** The options of a rule itself, in the order in which iptables-save prints them. */
const FIELDS = new Map([
  ['-s', 'source'],
  ['-d', 'destination'],
  ['-i', 'inInterface'],
  ['-o', 'outInterface'],
  ['-p', 'protocol'],
] as const)

/**
 * Reads the text after `-A CHAIN ` into typed fields, whatever the modules and targets are.
 * Undefined if the text is not a rule: a field without its value, an open quote, a word that
 * belongs to no option.
 */
export function parseRule(spec: string): ParsedRule | undefined {
  const tokens = splitWords(spec)
  try {
    return tokens && new RuleReader(tokens).read()
  } catch (error) {
    if (error instanceof NotARule) return undefined
    throw error
  }
}

class RuleReader {
  readonly #tokens: string[]
  readonly #rule: ParsedRule = { matches: [] }
  /** The last match or target: the following options belong to it. */
  #holder: Match | Target | undefined
  #at = 0

  constructor(tokens: string[]) {
    this.#tokens = tokens
  }

  read(): ParsedRule {
    while (this.#at < this.#tokens.length) {
      const negated = this.#tokens[this.#at] === '!'
      if (negated) this.#at++
      this.#option(this.#next(), negated)
    }
    return this.#rule
  }

  #option(option: string, negated: boolean): void {
    const rule = this.#rule
    const field = FIELDS.get(option as '-s')
    if (field) rule[field] = { negated, value: this.#next() }
    else if (option === '-f') rule.fragment = { negated, value: true }
    else if (option === '-m') this.#match(this.#next())
    else if (option === '-j' || option === '-g')
      this.#holder = rule.target = { name: this.#next(), goto: option === '-g', options: new Map() }
    else this.#extension(option, negated)
  }

  #match(name: string): void {
    this.#holder = { name, options: new Map() }
    this.#rule.matches.push(this.#holder)
  }

  /**
   * An option belongs to the match or target before it; `-p tcp --dport 80` has an implicit match.
   */
  #extension(option: string, negated: boolean): void {
    const protocol = this.#rule.protocol?.value ?? ''
    if (
      PROTOCOL_OPTION.test(option) &&
      PROTOCOL_MATCHES.has(protocol) &&
      this.#holder?.name !== protocol
    )
      this.#match(protocol)
    if (!option.startsWith('-') || !this.#holder) throw new NotARule()
    const value = TEXT_OPTIONS.has(option) ? [this.#next()] : this.#untilOption()
    this.#holder.options.set(option, { negated, value })
  }

  #untilOption(): string[] {
    const tokens: string[] = []
    while (this.#at < this.#tokens.length && !/^(-|!$)/.test(this.#tokens[this.#at] ?? ''))
      tokens.push(this.#next())
    return tokens
  }

  #next(): string {
    const word = this.#tokens[this.#at++]
    if (word === undefined) throw new NotARule()
    return word
  }
}

/**
 * Prints a rule as iptables-save does: addresses, interfaces, protocol, matches in their order,
 * target last.
 */
export function printRule(rule: ParsedRule): string {
  const tokens: string[] = []
  for (const [option, field] of FIELDS) {
    const value = rule[field]
    if (value) tokens.push(...(value.negated ? ['!'] : []), option, value.value)
  }
  if (rule.fragment) tokens.push(...(rule.fragment.negated ? ['!'] : []), '-f')
  for (const match of rule.matches) {
    tokens.push('-m', match.name)
    pushOptions(tokens, match.options)
  }
  if (rule.target) {
    tokens.push(rule.target.goto ? '-g' : '-j', rule.target.name)
    pushOptions(tokens, rule.target.options)
  }
  return tokens.join(' ')
}

const NEEDS_QUOTES = /[^A-Za-z0-9_-]/

function pushOptions(tokens: string[], options: RuleOptions): void {
  for (const [option, { negated, value }] of options) {
    if (negated) tokens.push('!')
    tokens.push(option)
    // iptables-save prints two spaces before the name of an accounting object.
    if (option === '--nfacct-name') tokens.push('')
    for (const word of value) tokens.push(mustQuote(option, word) ? quoteWord(word) : word)
  }
}

function mustQuote(option: string, word: string): boolean {
  if (word === '') return true
  return TEXT_OPTIONS.has(option) ? NEEDS_QUOTES.test(word) : /[\s"\\]/.test(word)
}

const COMMENT = /--comment ("(?:[^"\\]|\\.)*"|\S+)/
const TARGET = /(?:^| )(?:-j|-g) (\S+)/

/** The comment of a rule, unquoted; undefined if there is none. Faster than parsing the rule. */
export function commentOf(spec: string): string | undefined {
  const quoted = COMMENT.exec(spec)?.[1]
  return quoted === undefined ? undefined : (splitWords(quoted)?.[0] ?? '')
}

/** The target or chain of a rule; undefined for a rule without a target. */
export function targetOf(spec: string): string | undefined {
  const unquoted = spec.includes('"') ? spec.replace(/"(?:[^"\\]|\\.)*"/g, '""') : spec
  return TARGET.exec(unquoted)?.[1]
}

/**
 * The canonical text of a rule, so that different spellings are equal; text that is not a rule is
 * unchanged.
 */
export function normaliseSpec(spec: string): string {
  const rule = knownRule(spec)
  return rule ? printRule(rule) : spec
}

/** Caches 5,000 rules: captures of a cluster's nodes contain mostly the same ones. */
const known = new BoundedCache<ParsedRule | undefined>(5000)

/** parseRule with a cache: the object is shared for equal texts and must not be changed. */
export const knownRule = (spec: string): ParsedRule | undefined =>
  known.getOrCreate(spec, parseRule)
