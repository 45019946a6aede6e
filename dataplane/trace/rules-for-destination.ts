import { parsePrefix } from '../ip-address.ts'
import type { Rule } from '../iptables-save.ts'
import { knownRule } from '../rule.ts'

/** The rules of a chain by the single address that they are for; places are those in the chain. */
interface DestinationIndex {
  /** The number of rules: a chain grows while it is read, and is not changed afterwards. */
  size: number
  byAddress: ReadonlyMap<bigint, readonly number[]>
  /** For several addresses, or for all. */
  others: readonly number[]
}

const indexes = new WeakMap<readonly Rule[], DestinationIndex>()

/** Below this, an index costs more than it saves. */
const SMALL = 8

/**
 * The rules of a chain, in order, without those that are for another address: KUBE-SERVICES has a
 * few for each address of each Service, and a packet is for one of them.
 */
export function rulesForDestination(rules: readonly Rule[], destination: string): readonly Rule[] {
  const address = rules.length < SMALL ? undefined : parsePrefix(destination)
  if (!address) return rules
  const { byAddress, others } = indexRules(rules)
  const own = byAddress.get(address.bits) ?? []
  return [...own, ...others].sort((one, other) => one - other).map((place) => rules[place] as Rule)
}

function indexRules(rules: readonly Rule[]): DestinationIndex {
  const known = indexes.get(rules)
  if (known?.size === rules.length) return known
  const byAddress = new Map<bigint, number[]>()
  const others: number[] = []
  for (const [place, { spec }] of rules.entries()) {
    const address = singleDestination(spec)
    const places = address === undefined ? others : (byAddress.get(address) ?? [])
    if (address !== undefined) byAddress.set(address, places)
    places.push(place)
  }
  const index = { size: rules.length, byAddress, others }
  indexes.set(rules, index)
  return index
}

/**
 * The only address that a rule is for. IPv4 and IPv6 may share a number: the rule's own condition
 * decides then.
 */
function singleDestination(spec: string): bigint | undefined {
  const destination = knownRule(spec)?.destination
  if (!destination || destination.negated) return undefined
  const prefix = parsePrefix(destination.value)
  const isSingle = prefix?.length === (prefix?.family === 'ipv4' ? 32 : 128)
  return isSingle ? prefix?.bits : undefined
}
