// Sets of addresses as nft lists them.

import ipaddr from 'ipaddr.js'
import {
  type AddressRange,
  addressBits,
  canonicalAddress,
  type Family,
  parseRange,
} from './ip-address.ts'

function merge(ranges: readonly AddressRange[]): AddressRange[] {
  const merged: AddressRange[] = []
  for (const range of [...ranges].sort((a, b) =>
    a.first < b.first ? -1 : a.first > b.first ? 1 : 0,
  )) {
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
 * Addresses, prefixes and ranges as nft lists a set of intervals: without overlaps, adjacent ones
 * joined, in ascending order. Two sets contain the same addresses if the results are equal.
 * Undefined if a member is not an address.
 */
export function mergeAddresses(members: readonly string[]): string[] | undefined {
  const ranges = members.flatMap((member) => parseRange(member) ?? [])
  const isComplete =
    ranges.length === members.length && ranges.every(({ family }) => family === ranges[0]?.family)
  return isComplete && ranges.length > 0 ? merge(ranges).map(print) : undefined
}

/**
 * An anonymous set in braces, as nft lists the set of a rule that was written with several members.
 */
export const anonymousSetText = (members: readonly string[]): string =>
  `{ ${(mergeAddresses(members) ?? [...members].sort()).join(', ')} }`

/**
 * The right side of a match that is written as a set with these members. nft makes a comparison of
 * a set with one member when it reads the rule, before it joins ranges: a set that becomes one
 * range later keeps its braces.
 */
export const writtenSetText = (members: readonly string[]): string =>
  members.length === 1 ? `${mergeAddresses(members)?.[0] ?? members[0]}` : anonymousSetText(members)

/**
 * A rule with its sets of addresses in one spelling: joined or not, with braces or not, the same
 * addresses have the same text.
 */
export const withSameAddresses = (rule: string): string =>
  rule.replace(/\{ ([^{}]*) \}/g, (set, list: string) => {
    const merged = list.includes(' : ') ? undefined : mergeAddresses(list.split(', '))
    if (merged === undefined) return set
    return merged.length === 1 ? `${merged[0]}` : `{ ${merged.join(', ')} }`
  })
