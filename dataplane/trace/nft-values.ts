import { BoundedCache } from '../bounded-cache.ts'
import { contains, familyOf } from '../ip-address.ts'
import type { NftElements, NftExpression } from '../nft-rule.ts'
import type { NftTable } from '../nft-table.ts'
import type { Flow } from './flow.ts'
import { connectionStates } from './judge-rule.ts'
import type { NodeNetwork } from './node-network.ts'

/** Where an expression is evaluated. */
export interface NftPlace {
  table: NftTable
  network: NodeNetwork
}

/**
 * A possible value of an expression, undefined for none, and the packet with the probability of
 * that value.
 */
interface NftValue {
  value: string | undefined
  flow: Flow
}

/** The possible values of an expression for the packet, each with its probability. */
export function valuesOf(place: NftPlace, expression: NftExpression, flow: Flow): NftValue[] {
  switch (expression.kind) {
    case 'literal':
      return [{ value: expression.text, flow }]
    case 'selector':
      return [{ value: selected(place, expression.text, flow), flow }]
    case 'number': {
      const probability = flow.probability / expression.modulus
      return Array.from({ length: expression.modulus }, (_, number) => {
        return { value: `${number + expression.offset}`, flow: { ...flow, probability } }
      })
    }
    case 'concat':
      return expression.parts
        .slice(1)
        .reduce(
          (before, part) =>
            before.flatMap((one) => both(place, one, part, (left, right) => `${left} . ${right}`)),
          valuesOf(place, expression.parts[0] as NftExpression, flow),
        )
    case 'binary':
      return valuesOf(place, expression.left, flow).flatMap((one) =>
        both(place, one, expression.right, (left, right) =>
          combine(expression.operator, left, right),
        ),
      )
    case 'map':
      return valuesOf(place, expression.key, flow).map(({ value, flow: taken }) => ({
        value: value === undefined ? undefined : lookUp(place.table, expression.data, value),
        flow: taken,
      }))
  }
}

/** A value combined with each of another expression. */
const both = (
  place: NftPlace,
  { value: left, flow: taken }: NftValue,
  other: NftExpression,
  join: (left: string, right: string) => string,
): NftValue[] =>
  valuesOf(place, other, taken).map(({ value: right, flow }) => {
    return {
      value: left === undefined || right === undefined ? undefined : join(left, right),
      flow,
    }
  })

/**
 * The first packet's value of a selector such as `ip saddr` or `meta mark`; undefined if it has
 * none.
 */
type Selector = (flow: Flow, isIPv4: boolean, network: NodeNetwork) => string | undefined

/**
 * The selectors that are modelled, beside `fib` and ports; those of a header by the header's field.
 */
const SELECTORS: ReadonlyMap<string, Selector> = new Map(
  Object.entries<Selector>({
    saddr: ({ source }) => source,
    daddr: ({ destination }) => destination,
    protocol: ({ protocol }) => protocol,
    nexthdr: ({ protocol }) => protocol,
    version: (_flow, isIPv4) => (isIPv4 ? '4' : '6'),
    'meta l4proto': ({ protocol }) => protocol,
    'meta mark': ({ mark }) => hexadecimal(mark),
    'meta nfproto': (_flow, isIPv4) => (isIPv4 ? 'ipv4' : 'ipv6'),
    'meta protocol': (_flow, isIPv4) => (isIPv4 ? 'ip' : 'ip6'),
    'ct mark': ({ connmark }) => hexadecimal(connmark),
    'ct state': (flow) => connectionStates(flow)[0]?.toLowerCase(),
    'ct status': (flow) => connectionStates(flow).slice(1).join(',').toLowerCase(),
    'ct direction': () => 'original',
    'ct original saddr': ({ original }) => original.source,
    'ct original daddr': ({ original }) => original.destination,
    'ct original proto-dst': ({ original }) => `${original.port}`,
    iif: ({ inInterface }) => inInterface ?? '',
    iifname: ({ inInterface }) => inInterface ?? '',
    oif: ({ outInterface }) => outInterface ?? '',
    oifname: ({ outInterface }) => outInterface ?? '',
  }),
)

const selectors = new BoundedCache<Selector>(1000)

/** Reads a selector; one that is not modelled has no value. */
function selectorOf(text: string): Selector {
  const [first = '', ...rest] = text.split(' ')
  const key = rest.join(' ')
  if (first === 'fib' && (key === 'daddr type' || key === 'saddr type'))
    return ({ source, destination }, _isIPv4, network) =>
      network.addressType(key === 'daddr type' ? destination : source).toLowerCase()
  if (key === 'dport')
    return ({ protocol, port }) => (first === 'th' || first === protocol ? `${port}` : undefined)
  if (first !== 'ip' && first !== 'ip6')
    return SELECTORS.get(text.replace(/^(ct original) ip6? /, '$1 ')) ?? (() => undefined)
  const field = SELECTORS.get(key)
  return (flow, isIPv4, network) =>
    isIPv4 === (first === 'ip') ? field?.(flow, isIPv4, network) : undefined
}

const selected = ({ network }: NftPlace, text: string, flow: Flow): string | undefined =>
  selectors.getOrCreate(text, selectorOf)(flow, familyOf(flow.destination) === 'ipv4', network)

const hexadecimal = (value: number): string => `0x${value.toString(16).padStart(8, '0')}`

function combine(operator: '&' | '|' | '^', left: string, right: string): string {
  const [a, b] = [Number(left), Number(right)]
  return hexadecimal((operator === '&' ? a & b : operator === '|' ? a | b : a ^ b) >>> 0)
}

/** The value of the element that contains the key, `''` for a set; undefined if there is none. */
export function lookUp(table: NftTable, data: NftElements, key: string): string | undefined {
  if (!('name' in data)) return data.elements.find(([element]) => covers(element, key))?.[1]
  const map = table.maps.get(data.name)?.elements
  const exact = map?.get(key)
  if (exact !== undefined) return exact
  const set = table.sets.get(data.name)?.elements
  if (set?.has(key)) return ''
  if (map) {
    const element = coveringElements(map, key).find((one) => covers(one, key))
    return element === undefined ? undefined : map.get(element)
  }
  return set && coveringElements(set, key).some((one) => covers(one, key)) ? '' : undefined
}

/**
 * The elements of a map or set that can cover other values than themselves: maps of Services have
 * thousands, and none of these.
 */
const patterns = new WeakMap<object, { size: number; elements: string[] }>()
const PATTERN = /[/*-]|0x/

function coveringElements(
  elements: ReadonlyMap<string, unknown> | ReadonlySet<string>,
  key: string,
): readonly string[] {
  // A value with several flags is covered by each of them.
  if (key.includes(',')) return [...elements.keys()]
  const known = patterns.get(elements)
  if (known?.size === elements.size) return known.elements
  const found = [...elements.keys()].filter((element) => PATTERN.test(element))
  patterns.set(elements, { size: elements.size, elements: found })
  return found
}

/**
 * Whether a set element contains a value: each part is equal, in a prefix or range, one of the
 * flags, or matches `veth*`.
 */
export function covers(element: string, value: string): boolean {
  if (element === value || element === '*') return true
  const parts = element.split(' . ')
  const values = value.split(' . ')
  if (parts.length > 1)
    return (
      parts.length === values.length &&
      parts.every((part, index) => covers(part, values[index] ?? ''))
    )
  if (element.endsWith('*')) return value.startsWith(element.slice(0, -1))
  if (value.includes(',')) return value.split(',').includes(element)
  if (familyOf(value) !== undefined) return contains(element, value)
  if (!/^(0x[0-9a-f]+|\d+)$/.test(value)) return false
  const [low = '', high = low] = element.split('-')
  return Number(value) >= Number(low) && Number(value) <= Number(high)
}
