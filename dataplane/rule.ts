import { asHost, familyOf } from './ip-address.ts'
import { ALIASES, MATCH_OPTIONS, type Options, QUOTED_OPTIONS, TARGET_OPTIONS } from './rule-options.ts'
import { quoteWord, splitWords } from './words.ts'

/** A value that a rule requires, or with `!` excludes. */
export interface Negatable<Value> {
  negated: boolean
  value: Value
}

/** The options of one match or target by name, in their order: `--dport` → ['80'], a flag → []. */
export type RuleOptions = Map<string, Negatable<string[]>>

/**
 * One `-m NAME` with its options. `known` is false for a module that is not modelled: its options are kept as printed.
 */
export interface Match {
  name: string
  known: boolean
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

/** The text cannot be output of iptables; the message names the invalid word. */
export class RuleError extends Error {
  constructor(message: string, spec: string) {
    super(`${message} in the rule "${spec}"`)
    this.name = 'RuleError'
  }
}

const IMPLICIT_MATCHES = ['tcp', 'udp', 'sctp', 'icmp']

/**
 * Reads the text after `-A CHAIN ` into typed fields. Strict (the default): throws RuleError for a module, option or
 * target option that this model does not know, an option without its value and an open quote. Lenient: unknown parts are
 * kept as text, and the result is undefined only if the text is not a rule.
 */
export function parseRule(spec: string): ParsedRule
export function parseRule(spec: string, options: { lenient: true }): ParsedRule | undefined
export function parseRule(spec: string, options: { lenient?: boolean } = {}): ParsedRule | undefined {
  try {
    return new RuleReader(spec, options.lenient ?? false).read()
  } catch (error) {
    if (options.lenient && error instanceof RuleError) return undefined
    throw error
  }
}

class RuleReader {
  readonly #spec: string
  readonly #lenient: boolean
  readonly #words: string[]
  readonly #rule: ParsedRule = { matches: [] }
  #at = 0

  constructor(spec: string, lenient: boolean) {
    this.#spec = spec
    this.#lenient = lenient
    const words = splitWords(spec)
    if (!words) throw new RuleError('a quote is not closed', spec)
    this.#words = words
  }

  read(): ParsedRule {
    while (this.#at < this.#words.length) {
      const negated = this.#words[this.#at] === '!'
      if (negated) this.#at++
      const word = this.#words[this.#at++]
      if (word === undefined) throw new RuleError('a "!" negates nothing', this.#spec)
      this.#option(ALIASES.get(word) ?? word, negated)
    }
    return this.#rule
  }

  #option(option: string, negated: boolean): void {
    const rule = this.#rule
    if (option === '-s') rule.source = { negated, value: asPrefix(this.#value(option)) }
    else if (option === '-d') rule.destination = { negated, value: asPrefix(this.#value(option)) }
    else if (option === '-i') rule.inInterface = { negated, value: this.#value(option) }
    else if (option === '-o') rule.outInterface = { negated, value: this.#value(option) }
    else if (option === '-p') rule.protocol = { negated, value: this.#value(option) }
    else if (option === '-f') rule.fragment = { negated, value: true }
    else if (option === '-m') this.#match(this.#value(option))
    else if (option === '-j' || option === '-g') {
      rule.target = { name: this.#value(option), goto: option === '-g', options: new Map() }
    } else if (option.startsWith('-')) this.#extension(option, negated)
    else throw new RuleError(`the word "${option}" belongs to no option`, this.#spec)
  }

  #match(name: string): Match {
    const known = MATCH_OPTIONS.has(name)
    if (!known && !this.#lenient) throw new RuleError(`unknown match "${name}"`, this.#spec)
    const match: Match = { name, known, options: new Map() }
    this.#rule.matches.push(match)
    return match
  }

  /**
   * An option of the target if there is one, else of the last match that has it, else of the protocol's implicit match.
   */
  #extension(option: string, negated: boolean): void {
    const { target, matches, protocol } = this.#rule
    const holder =
      (target && TARGET_OPTIONS.get(target.name)?.has(option) ? target : undefined) ??
      matches.findLast((match) => MATCH_OPTIONS.get(match.name)?.has(option)) ??
      this.#implicit(option, protocol?.value)
    if (holder) {
      const arity = tableOf(holder)?.get(option) ?? 0
      const values = Array.from({ length: arity }, () => this.#value(option))
      holder.options.set(option, { negated, value: values })
      return
    }
    if (!this.#lenient) throw new RuleError(`unknown option "${option}"`, this.#spec)
    const raw = target ?? matches.at(-1)
    if (!raw) throw new RuleError(`the option "${option}" belongs to no match`, this.#spec)
    const values: string[] = []
    while (this.#at < this.#words.length && !/^(-|!$)/.test(this.#words[this.#at] ?? ''))
      values.push(this.#value(option))
    raw.options.set(option, { negated, value: values })
  }

  /** The implicit match of `-p tcp --dport 80` without `-m tcp`. */
  #implicit(option: string, protocol: string | undefined): Match | undefined {
    if (protocol === undefined || !IMPLICIT_MATCHES.includes(protocol)) return undefined
    return MATCH_OPTIONS.get(protocol)?.has(option) ? this.#match(protocol) : undefined
  }

  #value(option: string): string {
    const word = this.#words[this.#at++]
    if (word === undefined) throw new RuleError(`the option "${option}" has no value`, this.#spec)
    return word
  }
}

function tableOf(holder: Match | Target): Options | undefined {
  return 'goto' in holder ? TARGET_OPTIONS.get(holder.name) : MATCH_OPTIONS.get(holder.name)
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
