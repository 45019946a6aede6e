// Parses a rule in the syntax of `nft list` (nft(8)) into typed statements: those that kube-proxy writes, and common manual
// additions.

import { BoundedCache } from './bounded-cache.ts'

/** A property of a packet, or a constant value. */
export type NftExpression =
  | { kind: 'literal'; text: string }
  /** As printed: `ip saddr`, `th dport`, `meta l4proto`, `ct state`, `fib daddr type`, `iifname`. */
  | { kind: 'selector'; text: string }
  | { kind: 'concat'; parts: NftExpression[] }
  | { kind: 'binary'; operator: BinaryOperator; left: NftExpression; right: NftExpression }
  /** `numgen`, `jhash`, `symhash`: a number below `modulus`; for an unknown client all are equally likely. */
  | { kind: 'number'; modulus: number; offset: number }
  | { kind: 'map'; key: NftExpression; data: NftElements }

type BinaryOperator = '&' | '|' | '^'

/** A named set or map (`@name`), or an anonymous one; elements without a value have an empty verdict. */
export type NftElements = { name: string } | { elements: [key: string, value: string][] }

/** Where a packet goes; only `jump` and `goto` have a chain. */
export interface NftVerdict {
  kind: 'verdict'
  verdict: 'accept' | 'drop' | 'return' | 'continue' | 'reject' | 'jump' | 'goto'
  chain?: string
}

export type NftStatement =
  | { kind: 'match'; left: NftExpression; operator: string; right: NftExpression | NftElements }
  | NftVerdict
  | { kind: 'vmap'; key: NftExpression; data: NftElements }
  | { kind: 'nat'; type: 'dnat' | 'snat' | 'redirect' | 'masquerade'; to?: NftExpression }
  | { kind: 'mark'; of: 'meta' | 'ct'; value: NftExpression }
  | { kind: 'update'; set: string; key: NftExpression }
  | { kind: 'notrack' }
  /** A counter or log statement, which has no effect on packets. */
  | { kind: 'note' }

const OPERATORS = new Set(['==', '!=', '<', '>', '<=', '>='])
const INTERFACES = new Set(['iif', 'oif', 'iifname', 'oifname', 'mark'])
const SELECTORS: Record<string, RegExp> = {
  ip: /^(saddr|daddr|protocol|version)$/,
  ip6: /^(saddr|daddr|nexthdr)$/,
  th: /^[sd]port$/,
  tcp: /^[sd]port$/,
  udp: /^[sd]port$/,
  sctp: /^[sd]port$/,
  meta: /^(l4proto|mark|nfproto|protocol|iif|oif|iifname|oifname|pkttype)$/,
  ct: /^(state|status|mark|direction)$/,
}
const NAT_FLAGS = new Set(['random', 'fully-random', 'persistent', ','])

class UnknownStatement extends Error {}

const known = new BoundedCache<readonly NftStatement[] | undefined>(5000)

/**
 * The statements of a rule; undefined if one of them is unknown. The result is shared for equal texts and must not be
 * changed.
 */
export const parseNftRule = (text: string): readonly NftStatement[] | undefined =>
  known.getOrCreate(text, () => {
    try {
      return new RuleReader(text).read()
    } catch (error) {
      if (error instanceof UnknownStatement) return undefined
      throw error
    }
  })

/** Parses the verdict of a map element: `drop`, `goto service-…`; undefined for other text. */
export function parseVerdict(text: string): NftVerdict | undefined {
  const [statement, ...more] = parseNftRule(text) ?? []
  return statement?.kind === 'verdict' && more.length === 0 ? statement : undefined
}

class RuleReader {
  readonly #words: string[]
  #at = 0

  constructor(text: string) {
    this.#words = text.match(/"[^"]*"|[{},]|[^\s{},]+/g) ?? []
  }

  read(): NftStatement[] {
    const statements: NftStatement[] = []
    while (this.#at < this.#words.length) statements.push(this.#statement())
    return statements
  }

  #peek(ahead = 0): string {
    return this.#words[this.#at + ahead] ?? ''
  }

  #next(): string {
    const word = this.#words[this.#at++]
    if (word === undefined) throw new UnknownStatement()
    return word
  }

  #expect(word: string): void {
    if (this.#next() !== word) throw new UnknownStatement()
  }

  #skip(words: { has(word: string): boolean }): void {
    while (words.has(this.#peek())) this.#at++
  }

  #statement(): NftStatement {
    const word = this.#peek()
    switch (word) {
      case 'accept':
      case 'drop':
      case 'return':
      case 'continue':
        this.#at++
        return { kind: 'verdict', verdict: word }
      case 'jump':
      case 'goto':
        this.#at++
        return { kind: 'verdict', verdict: word, chain: this.#next() }
      case 'reject':
        // `with icmp port-unreachable`, `with tcp reset`: the reply to the sender.
        this.#at += this.#peek(1) === 'with' ? (this.#peek(3) === 'type' ? 5 : 4) : 1
        return { kind: 'verdict', verdict: 'reject' }
      case 'counter':
        this.#at += this.#peek(1) === 'packets' ? 5 : 1
        return { kind: 'note' }
      case 'log':
        this.#at++
        while (['prefix', 'level', 'group', 'flags'].includes(this.#peek())) this.#at += 2
        return { kind: 'note' }
      case 'limit':
        // The first packets match; from which one on it is different depends on those before.
        this.#at += this.#peek(2) === 'over' ? 4 : 3
        if (this.#peek() === 'burst') this.#at += 3
        return { kind: 'note' }
      case 'comment':
        this.#at += 2
        return { kind: 'note' }
      case 'notrack':
        this.#at++
        return { kind: 'notrack' }
      case 'update':
      case 'add':
        return this.#update()
      case 'dnat':
      case 'snat':
      case 'redirect':
      case 'masquerade':
        this.#at++
        return this.#nat(word)
      default:
        return this.#match()
    }
  }

  #update(): NftStatement {
    this.#at++
    const set = this.#next().replace(/^@/, '')
    this.#expect('{')
    const key = this.#expression()
    while (this.#peek() !== '}') this.#next()
    this.#expect('}')
    return { kind: 'update', set, key }
  }

  #nat(type: 'dnat' | 'snat' | 'redirect' | 'masquerade'): NftStatement {
    this.#skip(new Set(['ip', 'ip6', 'addr', '.', 'port']))
    if (this.#peek() !== 'to') {
      this.#skip(NAT_FLAGS)
      return { kind: 'nat', type }
    }
    this.#at++
    const to = this.#expression()
    this.#skip(NAT_FLAGS)
    return { kind: 'nat', type, to }
  }

  /** `[meta|ct] mark set …`, `key vmap …`, or a comparison. */
  #match(): NftStatement {
    const left = this.#expression()
    const word = this.#peek()
    if (word === 'set' && left.kind === 'selector' && /^(meta|ct) mark$/.test(left.text)) {
      this.#at++
      return { kind: 'mark', of: left.text === 'ct mark' ? 'ct' : 'meta', value: this.#expression() }
    }
    if (word === 'vmap') {
      this.#at++
      return { kind: 'vmap', key: left, data: this.#elements() }
    }
    if (left.kind === 'literal') throw new UnknownStatement()
    const operator = OPERATORS.has(word) ? this.#next() : '=='
    const right = this.#peek() === '{' || this.#peek().startsWith('@') ? this.#elements() : this.#values()
    return { kind: 'match', left, operator, right }
  }

  /** One value, or alternatives: `new,established`. */
  #values(): NftExpression | NftElements {
    const values = [this.#value()]
    while (this.#peek() === ',') {
      this.#at++
      values.push(this.#value())
    }
    const [text = ''] = values
    return values.length === 1 ? { kind: 'literal', text } : { elements: values.map((value) => [value, '']) }
  }

  #value(): string {
    const words = [unquoted(this.#next())]
    while (this.#peek() === '.') words.push(this.#next(), this.#next())
    return words.join(' ')
  }

  #elements(): NftElements {
    const word = this.#next()
    if (word.startsWith('@')) return { name: word.slice(1) }
    if (word !== '{') throw new UnknownStatement()
    const elements: [string, string][] = []
    for (let next = word; next !== '}'; next = this.#next()) {
      const [key = '', value = ''] = this.#until(',', '}').split(' : ')
      elements.push([key, value])
    }
    return { elements }
  }

  #until(...ends: string[]): string {
    const words: string[] = []
    while (!ends.includes(this.#peek())) words.push(this.#next())
    return words.join(' ')
  }

  #expression(): NftExpression {
    let left = this.#primary()
    const parts = [left]
    while (this.#peek() === '.') {
      this.#at++
      parts.push(this.#primary())
    }
    if (parts.length > 1) left = { kind: 'concat', parts }
    while (/^[&|^]$/.test(this.#peek())) {
      const operator = this.#next() as BinaryOperator
      left = { kind: 'binary', operator, left, right: this.#primary() }
    }
    if (this.#peek() !== 'map') return left
    this.#at++
    return { kind: 'map', key: left, data: this.#elements() }
  }

  #primary(): NftExpression {
    const word = this.#next()
    if (word === '{' || word === '}' || word === ',') throw new UnknownStatement()
    if (word === 'numgen' || word === 'jhash' || word === 'symhash') return this.#number()
    if (word === 'fib') {
      const flags = [word]
      while (this.#peek() !== 'type') flags.push(this.#next())
      return { kind: 'selector', text: [...flags, this.#next()].join(' ') }
    }
    if (INTERFACES.has(word)) return { kind: 'selector', text: word === 'mark' ? 'meta mark' : word }
    const following = this.#peek()
    if (word === 'ct' && (following === 'original' || following === 'reply')) {
      const words = [word, this.#next(), this.#next()]
      if (words[2] === 'ip' || words[2] === 'ip6') words.push(this.#next())
      return { kind: 'selector', text: words.join(' ') }
    }
    if (SELECTORS[word]?.test(following)) {
      this.#at++
      const text = `${word} ${following}`
      return { kind: 'selector', text: /^meta [io]if(name)?$/.test(text) ? following : text }
    }
    return { kind: 'literal', text: unquoted(word) }
  }

  #number(): NftExpression {
    while (this.#peek() !== 'mod') this.#next()
    this.#at++
    const modulus = Number(this.#next())
    const options = new Map<string, number>()
    while (this.#peek() === 'seed' || this.#peek() === 'offset') options.set(this.#next(), Number(this.#next()))
    if (!Number.isInteger(modulus) || modulus < 1) throw new UnknownStatement()
    return { kind: 'number', modulus, offset: options.get('offset') ?? 0 }
  }
}

const unquoted = (word: string): string => word.replace(/^"(.*)"$/, '$1')
