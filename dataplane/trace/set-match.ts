import { canonicalAddress, contains, parsePrefix } from '../ip-address.ts'
import type { IpSet, IpSets } from '../ipset-save.ts'
import type { Flow } from './flow.ts'

/**
 * The key that the kernel looks up in a set for this packet, one text per dimension; undefined if
 * the packet has none.
 */
export function setKey(
  set: IpSet,
  directions: readonly string[],
  flow: Flow,
): (string | undefined)[] {
  const dimensions = (set.type.split(':')[1] ?? '').split(',')
  return dimensions.map((dimension, index) =>
    keyPart(set, dimension, directions[index] === 'src', flow),
  )
}

/** The text of one dimension of the key. */
function keyPart(set: IpSet, dimension: string, isSource: boolean, flow: Flow): string | undefined {
  switch (dimension) {
    case 'ip':
    case 'net':
      return isSource ? flow.source : flow.destination
    case 'port':
      // The source port is unknown, so no member can match it.
      return isSource ? undefined : destinationPortKey(set, flow)
    case 'iface':
      return isSource ? flow.inInterface : flow.outInterface
    case 'mark':
      return `0x${flow.mark.toString(16).padStart(8, '0')}`
    default:
      return undefined
  }
}

function destinationPortKey(set: IpSet, { protocol, port }: Flow): string | undefined {
  if (set.type !== 'bitmap:port') return `${protocol}:${port}`
  // bitmap:port has no protocol and supports only TCP and UDP (ip_set_get_ip_port).
  return protocol === 'sctp' ? undefined : String(port)
}

/**
 * Whether a set contains the packet, with the `directions` of `--match-set NAME dst,dst,src`. In
 * sets of networks the most specific member decides; `nomatch` excludes it.
 */
export function setHolds(
  sets: IpSets,
  set: IpSet,
  directions: readonly string[],
  flow: Flow,
): boolean {
  if (set.type === 'list:set') {
    return [...set.members].some((name) => {
      const member = sets.get(name)
      return (
        member !== undefined &&
        member.type !== 'list:set' &&
        setHolds(sets, member, directions, flow)
      )
    })
  }
  const key = setKey(set, directions, flow)
  const address = key.find((part) => part !== undefined && parsePrefix(part) !== undefined)
  if (address !== undefined && !isOfFamily(set, address)) return false
  if (key.some((part) => part === undefined)) return false
  if (!set.type.includes('net') && set.options.netmask === undefined)
    return set.members.has(key.join(','))
  let best = -1
  let holds = false
  for (const member of set.members) {
    const [element = '', ...flags] = member.split(' ')
    const specific = specificity(element.split(','), key, set.options.netmask)
    if (specific <= best) continue
    best = specific
    holds = !flags.includes('nomatch')
  }
  return holds
}

function isOfFamily(set: IpSet, address: string): boolean {
  const family = set.options.family
  return family === undefined || (family === 'inet6') === address.includes(':')
}

/** The total prefix length of a member that contains the key; -1 if it does not. */
function specificity(
  member: string[],
  key: (string | undefined)[],
  netmask: string | undefined,
): number {
  let bits = 0
  for (const [index, part] of member.entries()) {
    const wanted = key[index]
    if (wanted === undefined) return -1
    const network = netmask === undefined ? part : `${part}/${netmask}`
    const prefix = parsePrefix(network)
    if (prefix && parsePrefix(wanted)) {
      if (!contains(network, wanted)) return -1
      bits += prefix.length
    } else if (part !== wanted && canonicalAddress(part) !== wanted) return -1
  }
  return bits
}
