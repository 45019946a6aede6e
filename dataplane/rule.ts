import { BoundedCache } from './bounded-cache.ts'
import { asHost, familyOf } from './ip-address.ts'
import { quoteWord, splitWords } from './program-output.ts'
import { ALIASES, MATCH_OPTIONS, QUOTED_OPTIONS, TARGET_OPTIONS } from './rule-options.ts'

/** A value that a rule requires, or with `!` excludes. */
export interface Negatable<Value> {
  negated: boolean
  value: Value
}

/** The options of one match or target by name, in their order: `--dport` → ['80'], a flag → []. */
export type RuleOptions = Map<string, Negatable<string[]>>

/** One `-m NAME` with its options; those of a module that is not modelled are kept as printed. */
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

/** One rule in typed fields; absent fields match anything. Addresses are prefixes (`10.0.0.1/32`). */
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

const IMPLICIT_MATCHES = ['tcp', 'udp', 'sctp', 'icmp']

/**
 * Reads the text after `-A CHAIN ` into typed fields. Modules, options and targets that are not modelled are kept as text.
 * Undefined if the text is not a rule: an option without its value, an open quote, a word that belongs to no option.
 */
export function parseRule(spec: string): ParsedRule | undefined {
  const words = splitWords(spec)
  try {
    return words && new RuleReader(words).read()
  } catch (error) {
    if (error instanceof NotARule) return undefined
    throw error
  }
}

class RuleReader {
  readonly #words: string[]
  readonly #rule: ParsedRule = { matches: [] }
  #at = 0

  constructor(words: string[]) {
    this.#words = words
  }

  read(): ParsedRule {
    while (this.#at < this.#words.length) {
      const negated = this.#words[this.#at] === '!'
      if (negated) this.#at++
      const word = this.#next()
      this.#option(ALIASES.get(word) ?? word, negated)
    }
    return this.#rule
  }

  #option(option: string, negated: boolean): void {
    const rule = this.#rule
    if (option === '-s') rule.source = { negated, value: asPrefix(this.#next()) }
    else if (option === '-d') rule.destination = { negated, value: asPrefix(this.#next()) }
    else if (option === '-i') rule.inInterface = { negated, value: this.#next() }
    else if (option === '-o') rule.outInterface = { negated, value: this.#next() }
    else if (option === '-p') rule.protocol = { negated, value: this.#next() }
    else if (option === '-f') rule.fragment = { negated, value: true }
    else if (option === '-m') this.#match(this.#next())
    else if (option === '-j' || option === '-g')
      rule.target = { name: this.#next(), goto: option === '-g', options: new Map() }
    else this.#extension(option, negated)
  }

  #match(name: string): Match {
    const match: Match = { name, options: new Map() }
    this.#rule.matches.push(match)
    return match
  }

  /**
   * An option of the target if there is one, else of the last match that has it, else of the protocol's implicit match. If it
   * is not modelled, it belongs to what precedes it, with all words up to the next option.
   */
  #extension(option: string, negated: boolean): void {
    const { target, matches, protocol } = this.#rule
    const ofTarget = target && TARGET_OPTIONS.get(target.name)?.get(option)
    const match = matches.findLast(({ name }) => MATCH_OPTIONS.get(name)?.has(option))
    const known = ofTarget === undefined ? (match ?? this.#implicit(option, protocol?.value)) : target
    const holder = known ?? target ?? matches.at(-1)
    if (!option.startsWith('-') || !holder) throw new NotARule()
    const arity = ofTarget ?? MATCH_OPTIONS.get(holder.name)?.get(option) ?? 0
    const value = known ? Array.from({ length: arity }, () => this.#next()) : this.#untilOption()
    holder.options.set(option, { negated, value })
  }

  /** The implicit match of `-p tcp --dport 80` without `-m tcp`. */
  #implicit(option: string, protocol = ''): Match | undefined {
    const isImplicit = IMPLICIT_MATCHES.includes(protocol) && MATCH_OPTIONS.get(protocol)?.has(option)
    return isImplicit ? this.#match(protocol) : undefined
  }

  #untilOption(): string[] {
    const words: string[] = []
    while (this.#at < this.#words.length && !/^(-|!$)/.test(this.#words[this.#at] ?? '')) words.push(this.#next())
    return words
  }

  #next(): string {
    const word = this.#words[this.#at++]
    if (word === undefined) throw new NotARule()
    return word
  }
}

/** iptables-save prints a host with its full prefix. */
const asPrefix = (address: string): string =>
  address.includes('/') || familyOf(address) === undefined ? address : asHost(address)

/** Prints a rule as iptables-save does: addresses, interfaces, protocol, matches in their order, target last. */
export function printRule(rule: ParsedRule): string {
  const words: string[] = []
  const field = (option: string, value: Negatable<string> | undefined) => {
    if (value) words.push(...(value.negated ? ['!'] : []), option, value.value)
  }
  field('-s', rule.source)
  field('-d', rule.destination)
  field('-i', rule.inInterface)
  field('-o', rule.outInterface)
  field('-p', rule.protocol)
  if (rule.fragment) words.push(...(rule.fragment.negated ? ['!'] : []), '-f')
  for (const match of rule.matches) {
    words.push('-m', match.name)
    pushOptions(words, match.options)
  }
  if (rule.target) {
    words.push(rule.target.goto ? '-g' : '-j', rule.target.name)
    pushOptions(words, rule.target.options)
  }
  return words.join(' ')
}

const NEEDS_QUOTES = /[^A-Za-z0-9_-]/

function pushOptions(words: string[], options: RuleOptions): void {
  for (const [option, { negated, value }] of options) {
    if (negated) words.push('!')
    words.push(option)
    // iptables-save prints two spaces before the name of an accounting object.
    if (option === '--nfacct-name') words.push('')
    for (const word of value) words.push(mustQuote(option, word) ? quoteWord(word) : word)
  }
}

function mustQuote(option: string, word: string): boolean {
  if (word === '') return true
  return QUOTED_OPTIONS.has(option) ? NEEDS_QUOTES.test(word) : /[\s"\\]/.test(word)
}

const COMMENT = /--comment ("(?:[^"\\]|\\.)*"|\S+)/
const TARGET = /(?:^| )(?:-j|-g|--jump|--goto) (\S+)/

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

/** The canonical text of a rule, so that different spellings are equal; text that is not a rule is unchanged. */
export const normaliseSpec = (spec: string): string =>
  normalised.getOrCreate(spec, () => {
    const rule = parseRule(spec)
    return rule ? printRule(rule) : spec
  })

const normalised = new BoundedCache<string>(5000)

/** Caches 5,000 rules: captures of a cluster's nodes contain mostly the same ones. */
const known = new BoundedCache<ParsedRule | undefined>(5000)

/** parseRule with a cache: the object is shared for equal texts and must not be changed. */
export const knownRule = (spec: string): ParsedRule | undefined => known.getOrCreate(spec, parseRule)
