// Parses a rule in the syntax of `nft list` (nft(8)) into typed statements: those that kube-proxy
// writes, and common manual additions.

import { BoundedCache } from './bounded-cache.ts'

/** A property of a packet, or a constant value. */
export type NftExpression =
  | { kind: 'literal'; text: string }
  /**
   * As printed: `ip saddr`, `th dport`, `meta l4proto`, `ct state`, `fib daddr type`, `iifname`.
   */
  | { kind: 'selector'; text: string }
  | { kind: 'concat'; parts: NftExpression[] }
  | { kind: 'binary'; operator: BinaryOperator; left: NftExpression; right: NftExpression }
  /**
   * `numgen`, `jhash`, `symhash`: a number below `modulus`; for an unknown client all are equally
   * likely.
   */
  | { kind: 'number'; modulus: number; offset: number }
  | { kind: 'map'; key: NftExpression; data: NftElements }

type BinaryOperator = '&' | '|' | '^'
type NatType = 'dnat' | 'snat' | 'redirect' | 'masquerade'

/**
 * A named set or map (`@name`), or an anonymous one; elements without a value have an empty
 * verdict.
 */
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
  | { kind: 'nat'; type: NatType; to?: NftExpression }
  | { kind: 'mark'; of: 'meta' | 'ct'; value: NftExpression }
  | { kind: 'update'; set: string; key: NftExpression }
  | { kind: 'notrack' }
  /** A counter or log statement, which has no effect on packets. */
  | { kind: 'note' }

/** Where a word ends. */
const END = '(?![^\\s{},])'
const VERDICT = new RegExp(
  // After `with`, the reply to the sender: `icmp type port-unreachable`, `tcp reset`.
  `^(?:(accept|drop|return|continue)|(jump|goto) ([^\\s{},]+)|(reject)(?: with \\S+(?: type)? \\S+)?)${END}`,
)
/**
 * Of a limit, the first packets match; from which one on it is different depends on those before.
 * `limit rate over` is not modelled.
 */
const NOTE = new RegExp(
  `^(?:${[
    'counter(?: packets \\d+ bytes \\d+)?',
    'log(?: (?:prefix|level|group|flags|snaplen|queue-threshold) (?:"[^"]*"|\\S+))*',
    'limit rate (?!over )(?:\\d+ )?\\S+(?: burst \\S+ \\S+)?',
    'comment (?:"[^"]*"|\\S+)',
  ].join('|')})${END}`,
)
const NAT = new RegExp(`^(dnat|snat|redirect|masquerade)(?: (?:ip6?|addr|\\.|port))*( to)?${END}`)
const NAT_FLAGS = /^(?:[, ]*(?:random|fully-random|persistent))+/
const SELECTOR = new RegExp(
  `^(?:${[
    'ip (?:[sd]addr|protocol|version)',
    'ip6 (?:[sd]addr|nexthdr)',
    '(?:th|tcp|udp|sctp) [sd]port',
    'meta (?:l4proto|nfproto|protocol|pkttype)',
    '(?:meta )?(?:mark|[io]if(?:name)?)',
    'ct (?:state|status|mark|direction)',
    'ct (?:original|reply) (?:ip6? )?[^\\s{},]+',
    'fib [^{},]+? type',
  ].join('|')})${END}`,
)
const NUMBER =
  /^(?:numgen|jhash|symhash) (?:[^{}]*? )?mod ([1-9]\d*)(?!\S)((?: (?:seed|offset) \S+)*)/
const VALUE = '(?:"[^"]*"|[^\\s{},]+)(?: \\. [^\\s{},]+)*'
const VALUES = new RegExp(`^${VALUE}(?:, ?${VALUE})*`)

class UnknownStatement extends Error {}

const known = new BoundedCache<readonly NftStatement[] | undefined>(5000)

/**
 * The statements of a rule; undefined if one of them is unknown. The result is shared for equal
 * texts and must not be changed.
 */
export const parseNftRule = (text: string): readonly NftStatement[] | undefined =>
  known.getOrCreate(text, () => {
    try {
      return new NftRuleReader(text).read()
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

class NftRuleReader {
  #rest: string

  constructor(text: string) {
    this.#rest = text.trim()
  }

  read(): NftStatement[] {
    const statements: NftStatement[] = []
    while (this.#rest !== '') statements.push(this.#statement())
    return statements
  }

  /** Reads what the pattern matches at the beginning of the rest; undefined if it does not. */
  #next(pattern: RegExp): readonly string[] | undefined {
    const found = pattern.exec(this.#rest) ?? undefined
    if (found) this.#rest = this.#rest.slice(found[0].length).trimStart()
    return found
  }

  #statement(): NftStatement {
    const verdict = this.#next(VERDICT)
    if (verdict) {
      const [, plain, jump, chain, reject] = verdict
      const word = (plain ?? jump ?? reject) as NftVerdict['verdict']
      return { kind: 'verdict', verdict: word, ...(chain !== undefined && { chain }) }
    }
    if (this.#next(NOTE)) return { kind: 'note' }
    if (this.#next(/^notrack\b/)) return { kind: 'notrack' }
    const [, set, key = ''] = this.#next(/^(?:update|add) @?(\S+) \{([^{}]*)\}/) ?? []
    if (set !== undefined) return new NftRuleReader(key).#update(set)
    const [, type, to] = this.#next(NAT) ?? []
    if (type === undefined) return this.#match()
    const nat = {
      kind: 'nat',
      type: type as NatType,
      ...(to !== undefined && { to: this.#expression() }),
    } as const
    this.#next(NAT_FLAGS)
    return nat
  }

  /**
   * The key between the braces; a limit for each element, which follows it, is a condition of the
   * rule.
   */
  #update(set: string): NftStatement {
    const key = this.#expression()
    this.#next(/^timeout \S+/)
    this.read()
    return { kind: 'update', set, key }
  }

  /** `[meta|ct] mark set …`, `key vmap …`, or a comparison. */
  #match(): NftStatement {
    const left = this.#expression()
    if (left.kind === 'selector' && /^(meta|ct) mark$/.test(left.text) && this.#next(/^set /))
      return {
        kind: 'mark',
        of: left.text === 'ct mark' ? 'ct' : 'meta',
        value: this.#expression(),
      }
    if (this.#next(/^vmap\b/)) return { kind: 'vmap', key: left, data: this.#elements() }
    if (left.kind === 'literal') throw new UnknownStatement()
    const [, operator = '=='] = this.#next(/^([=!<>]=|[<>]) /) ?? []
    return {
      kind: 'match',
      left,
      operator,
      right: /^[{@]/.test(this.#rest) ? this.#elements() : this.#values(),
    }
  }

  /** One value, or alternatives: `new,established`. */
  #values(): NftExpression | NftElements {
    const [text] = this.#next(VALUES) ?? []
    if (text === undefined) throw new UnknownStatement()
    const values = [...text.matchAll(new RegExp(VALUE, 'g'))].map(([value]) => unquoted(value))
    return values.length === 1
      ? { kind: 'literal', text: values[0] ?? '' }
      : { elements: values.map((one) => [one, '']) }
  }

  #elements(): NftElements {
    const [, name, list] = this.#next(/^(?:@([^\s{},]+)|\{([^{}]*)\})/) ?? []
    if (name !== undefined) return { name }
    if (list === undefined) throw new UnknownStatement()
    const pairs = list.split(',').map((pair) => pair.trim().split(' : '))
    return { elements: pairs.map(([key = '', value = '']) => [key, value]) }
  }

  #expression(): NftExpression {
    const parts = [this.#primary()]
    while (this.#next(/^\. /)) parts.push(this.#primary())
    let left: NftExpression =
      parts.length > 1 ? { kind: 'concat', parts } : (parts[0] as NftExpression)
    for (let sign = this.#next(/^[&|^] /); sign; sign = this.#next(/^[&|^] /))
      left = {
        kind: 'binary',
        operator: sign[0]?.trim() as BinaryOperator,
        left,
        right: this.#primary(),
      }
    return this.#next(/^map /) ? { kind: 'map', key: left, data: this.#elements() } : left
  }

  #primary(): NftExpression {
    const [, modulus, options = ''] = this.#next(NUMBER) ?? []
    if (modulus !== undefined)
      return {
        kind: 'number',
        modulus: Number(modulus),
        offset: Number(/ offset (\d+)/.exec(options)?.[1] ?? 0),
      }
    const [selector] = this.#next(SELECTOR) ?? []
    if (selector !== undefined)
      return {
        kind: 'selector',
        text: selector.replace(/^meta (?=[io]if)/, '').replace(/^mark$/, 'meta mark'),
      }
    const [literal] = this.#next(/^(?:"[^"]*"|[^\s{},]+)/) ?? []
    if (literal === undefined) throw new UnknownStatement()
    return { kind: 'literal', text: unquoted(literal) }
  }
}

const unquoted = (word: string): string => word.replace(/^"(.*)"$/, '$1')
