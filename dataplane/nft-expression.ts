// Converts the JSON of `nft -j list` to the syntax of `nft list`, for the statements and expressions that kube-proxy writes
// (libnftables-json(5)). Others are printed as JSON: such a rule must differ from every predicted one.

import { anonymousSetText, mergeAddresses } from './nft-address-set.ts'

/** Deeper than any rule of kube-proxy; nft itself does not print deeper nesting. */
const DEEPEST = 24
/** nft prints marks with eight hexadecimal digits. */
type Radix = 'decimal' | 'mark'

type Json = Record<string, unknown>

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)
const only = (value: Json): [string, unknown] | undefined => {
  const keys = Object.keys(value)
  return keys.length === 1 ? [keys[0] as string, value[keys[0] as string]] : undefined
}

/** An expression is nested too deeply to be shown. */
export class TooDeep extends Error {}

function number(value: number, radix: Radix): string {
  return radix === 'mark' ? `0x${value.toString(16).padStart(8, '0')}` : `${value}`
}

/** Elements of an anonymous set or map. */
function anonymousSet(items: readonly unknown[], radix: Radix, depth: number): string {
  const texts = items.map((item) => (Array.isArray(item) ? pair(item, depth) : expression(item, radix, depth)))
  const isMap = items.some(Array.isArray)
  if (isMap) return `{ ${texts.join(', ')} }`
  return texts.length === 1 && mergeAddresses(texts) ? `{ ${texts[0]} }` : anonymousSetText(texts)
}

const pair = ([key, value]: readonly unknown[], depth: number): string =>
  `${expression(key, 'decimal', depth)} : ${isObject(value) && isVerdict(value) ? statement(value, depth) : expression(value, 'decimal', depth)}`

const quotedKeys = new Set(['iifname', 'oifname', 'iif', 'oif'])
const verdicts = new Set(['accept', 'drop', 'return', 'continue', 'jump', 'goto'])
const isVerdict = (value: Json): boolean => verdicts.has(only(value)?.[0] ?? '')
const word = (value: unknown): string => (Array.isArray(value) ? value.map(String).join(',') : String(value))

/** The printer of each kind of expression, by its only key. */
const KINDS: Record<string, (value: never, radix: Radix, depth: number) => string> = {
  payload: ({ protocol, field, base, offset, len }: Json) =>
    protocol === undefined ? `@${base},${offset},${len}` : `${protocol} ${field}`,
  meta: ({ key }: Json) => (quotedKeys.has(String(key)) ? String(key) : `meta ${key}`),
  ct: ({ key }: Json) => `ct ${key}`,
  fib: ({ result, flags }: Json) => `fib ${Array.isArray(flags) ? flags.join(' . ') : flags} ${result}`,
  numgen: ({ mode, mod, offset }: Json) => `numgen ${mode} mod ${mod}${offset ? ` offset ${offset}` : ''}`,
  prefix: ({ addr, len }: Json) => `${addr}/${len}`,
  concat: (parts: unknown[], radix, depth) => parts.map((part) => expression(part, radix, depth)).join(' . '),
  set: (items: unknown, radix, depth) => anonymousSet(Array.isArray(items) ? items : [items], radix, depth),
  range: (ends: unknown[], radix, depth) => ends.map((end) => expression(end, radix, depth)).join('-'),
  elem: ({ val }: Json, radix, depth) => expression(val, radix, depth),
  map: ({ key, data }: Json, _radix, depth) =>
    `${expression(key, 'decimal', depth)} map ${expression(data, 'decimal', depth)}`,
}

for (const operator of ['&', '|', '^'])
  KINDS[operator] = (sides: unknown[], radix, depth) =>
    sides.map((side) => expression(side, radix, depth)).join(` ${operator} `)

/**
 * Prints an expression in nft syntax.
 * @throws TooDeep
 */
export function expression(value: unknown, radix: Radix = 'decimal', depth = 0): string {
  if (depth > DEEPEST) throw new TooDeep()
  if (typeof value === 'string') return value
  if (typeof value === 'number') return number(value, radix)
  if (Array.isArray(value)) return value.map((item) => expression(item, radix, depth + 1)).join(',')
  if (!isObject(value)) return JSON.stringify(value)
  const [kind, inner] = only(value) ?? []
  const print = kind !== undefined && Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined
  const fits = isObject(inner) || Array.isArray(inner) || kind === 'set'
  return print && fits ? print(inner as never, radix, depth + 1) : JSON.stringify(value)
}

const isMark = (value: unknown): boolean => JSON.stringify(value)?.includes('{"key":"mark"}') ?? false

function match({ op, left, right }: Json, depth: number): string {
  const radix = isMark(left) ? 'mark' : 'decimal'
  const key = isObject(left) && isObject(left.meta) ? String(left.meta.key) : ''
  const text = expression(right, radix, depth + 1)
  const value = quotedKeys.has(key) ? `"${text}"` : text
  const binary = isObject(left) && Object.keys(left).some((operator) => operator === '&')
  const sign = op === 'in' || (op === '==' && !binary) ? '' : `${op} `
  return `${expression(left, radix, depth + 1)} ${sign}${value}`
}

function dnat({ family, addr, port }: Json, depth: number): string {
  const address = expression(addr, 'decimal', depth + 1)
  if (port === undefined) return `dnat ${family === undefined ? '' : `${family} `}to ${address}`
  return `dnat to ${address.includes(':') ? `[${address}]` : address}:${expression(port, 'decimal', depth + 1)}`
}

/**
 * Prints a statement of a rule in nft syntax.
 * @throws TooDeep
 */
export function statement(value: unknown, depth = 0): string {
  if (depth > DEEPEST) throw new TooDeep()
  const [kind, inner] = (isObject(value) && only(value)) || []
  if (kind === 'reject') return 'reject'
  if (kind === 'accept' || kind === 'drop' || kind === 'return' || kind === 'continue') return kind
  if ((kind === 'masquerade' || kind === 'notrack' || kind === 'redirect') && !isObject(inner)) return kind
  if (kind === undefined || !isObject(inner)) return JSON.stringify(value)
  switch (kind) {
    case 'match':
      return match(inner, depth)
    case 'jump':
    case 'goto':
      return `${kind} ${inner.target}`
    case 'masquerade':
      return `masquerade ${word(inner.flags)}`
    case 'dnat':
      return dnat(inner, depth)
    case 'redirect':
      return `redirect to :${expression(inner.port, 'decimal', depth + 1)}`
    case 'limit':
      return `limit rate ${inner.inv === true ? 'over ' : ''}${inner.rate}/${inner.per}`
    case 'vmap':
      return `${expression(inner.key, 'decimal', depth + 1)} vmap ${expression(inner.data, 'decimal', depth + 1)}`
    case 'mangle':
      return `${expression(inner.key)} set ${expression(inner.value, isMark(inner.key) ? 'mark' : 'decimal', depth + 1)}`
    case 'set':
      return `${inner.op} ${inner.set} { ${expression(inner.elem, 'decimal', depth + 1)} }`
    default:
      return JSON.stringify(value)
  }
}

/** Counters do not affect packets. */
const isCounter = (value: unknown): boolean => isObject(value) && 'counter' in value

/**
 * The statements of a rule as one line of `nft list`.
 * @throws TooDeep
 */
export const ruleText = (statements: readonly unknown[]): string =>
  statements
    .filter((one) => !isCounter(one))
    .map((one) => statement(one))
    .join(' ')
