// Sets of addresses as nft lists them.

import ipaddr from 'ipaddr.js'
import { type AddressRange, addressBits, canonicalAddress, type Family, parseRange } from './ip-address.ts'

function merge(ranges: readonly AddressRange[]): AddressRange[] {
  const merged: AddressRange[] = []
  for (const range of [...ranges].sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0))) {
    const before = merged.at(-1)
    if (!before || range.first > before.last + 1n) merged.push({ ...range })
    else if (range.last > before.last) before.last = range.last
  }
  return merged
}

function address(bits: bigint, family: Family): string {
  const digits = bits.toString(16).padStart(addressBits(family) / 4, '0')
  return canonicalAddress(ipaddr.fromByteArray([...Buffer.from(digits, 'hex')]).toString())
}

/** A single address, a prefix if the range is one, else both ends. */
function print({ family, first, last }: AddressRange): string {
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
  const ranges = members.flatMap((member) => parseRange(member) ?? [])
  const isComplete = ranges.length === members.length && ranges.every(({ family }) => family === ranges[0]?.family)
  return isComplete && ranges.length > 0 ? merge(ranges).map(print) : undefined
}

/** An anonymous set, without braces if it has only one member: nft prints either form, depending on how the rule was written. */
export function anonymousSetText(members: readonly string[]): string {
  const merged = mergeAddresses(members) ?? [...members].sort()
  return merged.length === 1 ? `${merged[0]}` : `{ ${merged.join(', ')} }`
}
