import ipaddr from 'ipaddr.js'
import { addressBits, type Family, parsePrefix } from './ip-address.ts'

/** Addresses from the first to the last, both included, as numbers. */
interface Interval {
  first: bigint
  last: bigint
}

/** Reads `10.0.0.1`, `10.0.0.0/8` or `10.0.0.1-10.0.0.9`; undefined for other text. */
function readInterval(text: string): (Interval & { family: Family }) | undefined {
  const [from = '', to = from] = text.split('-')
  const [start, end] = [parsePrefix(from), parsePrefix(to)]
  if (!start || !end || start.family !== end.family) return undefined
  const host = (length: number) => (1n << BigInt(addressBits(start.family) - length)) - 1n
  return { family: start.family, first: start.bits & ~host(start.length), last: end.bits | host(end.length) }
}

function merge(intervals: readonly Interval[]): Interval[] {
  const merged: Interval[] = []
  for (const interval of [...intervals].sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0))) {
    const before = merged.at(-1)
    if (!before || interval.first > before.last + 1n) merged.push({ ...interval })
    else if (interval.last > before.last) before.last = interval.last
  }
  return merged
}

function address(bits: bigint, family: Family): string {
  const size = addressBits(family) / 8
  const bytes = Array.from({ length: size }, (_, index) => Number((bits >> BigInt(8 * (size - 1 - index))) & 255n))
  return family === 'ipv4' ? bytes.join('.') : new ipaddr.IPv6(bytes).toRFC5952String()
}

/** A single address, a prefix if the interval is one, else a range. */
function print({ first, last }: Interval, family: Family): string {
  if (first === last) return address(first, family)
  const size = last - first + 1n
  const isPrefix = (size & (size - 1n)) === 0n && first % size === 0n
  if (!isPrefix) return `${address(first, family)}-${address(last, family)}`
  return `${address(first, family)}/${addressBits(family) - (size.toString(2).length - 1)}`
}

/**
 * Addresses, prefixes and ranges as nft lists a set of intervals: without overlaps, adjacent ones joined, in ascending order.
 * Two sets contain the same addresses if the results are equal. Undefined if a member is not an address.
 */
export function mergeAddresses(members: readonly string[]): string[] | undefined {
  const intervals = members.map(readInterval)
  const family = intervals[0]?.family
  if (family === undefined || !intervals.every((interval) => interval?.family === family)) return undefined
  return merge(intervals as Interval[]).map((interval) => print(interval, family))
}

/** An anonymous set, without braces if it has only one member: nft prints either form, depending on how the rule was written. */
export function anonymousSetText(members: readonly string[]): string {
  const merged = mergeAddresses(members) ?? [...members].sort()
  return merged.length === 1 ? `${merged[0]}` : `{ ${merged.join(', ')} }`
}
