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

/** A possible value of an expression, undefined for none, and the packet with the probability of that value. */
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

/** The first packet's value of `ip saddr`, `meta mark`, …; undefined if it has none, or if the selector is not modelled. */
function selected({ network }: NftPlace, selector: string, flow: Flow): string | undefined {
  const [first = '', ...rest] = selector.split(' ')
  const key = rest.join(' ')
  const isIPv4 = familyOf(flow.destination) === 'ipv4'
  if (first === 'fib' && (key === 'daddr type' || key === 'saddr type')) {
    const address = key === 'daddr type' ? flow.destination : flow.source
    return network.addressType(address).toLowerCase()
  }
  if (key === 'dport') return first === 'th' || first === flow.protocol ? `${flow.port}` : undefined
  if (first === 'ip' && !isIPv4) return undefined
  if (first === 'ip6' && isIPv4) return undefined
  const { original } = flow
  const states = connectionStates(flow)
  const values: Record<string, string | undefined> = {
    saddr: flow.source,
    daddr: flow.destination,
    protocol: flow.protocol,
    nexthdr: flow.protocol,
    version: isIPv4 ? '4' : '6',
    'meta l4proto': flow.protocol,
    'meta mark': hexadecimal(flow.mark),
    'meta nfproto': isIPv4 ? 'ipv4' : 'ipv6',
    'meta protocol': isIPv4 ? 'ip' : 'ip6',
    'ct mark': hexadecimal(flow.connmark),
    'ct state': states[0]?.toLowerCase(),
    'ct status': states.slice(1).join(',').toLowerCase(),
    'ct direction': 'original',
    'ct original saddr': original.source,
    'ct original daddr': original.destination,
    'ct original proto-dst': `${original.port}`,
    iif: flow.inInterface ?? '',
    iifname: flow.inInterface ?? '',
    oif: flow.outInterface ?? '',
    oifname: flow.outInterface ?? '',
  }
  return values[
    first === 'ip' || first === 'ip6' ? key : selector.replace(/^(ct original) ip6? /, '$1 ')
  ]
}

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

/** The elements of a map or set that can cover other values than themselves: maps of Services have thousands, and none of these. */
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

/** Whether a set element contains a value: each part is equal, in a prefix or range, one of the flags, or matches `veth*`. */
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
