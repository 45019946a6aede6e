import { pairsOf } from '../collections.ts'
import type { Link } from '../ip-addr.ts'
import { isIPv6LinkLocal, printEndpoint } from '../ip-address.ts'
import type { IpSet, IpSets } from '../ipset-save.ts'
import {
  printIpvsadmSave,
  type RealServer,
  type VirtualServer,
  virtualServerKey,
} from '../ipvsadm-save.ts'
import { DUMMY_LINK, otherVirtualServers } from '../kube-proxy/mode-ownership.ts'
import type { NodeState } from '../node-state.ts'
import {
  type CompareOptions,
  compareMembers,
  counted,
  type Difference,
  onlyOnOneSide,
} from './difference.ts'

/**
 * Options of a create line that differ between nodes or tool versions and have no effect on
 * matching.
 */
const IGNORED_OPTIONS = new Set([
  'hashsize',
  'bucketsize',
  'initval',
  'maxelem',
  'counters',
  'comment',
])

/** Compares kube-proxy's sets: their names, types, families and members (unordered). */
export function compareIpsets(
  expected: IpSets,
  actual: IpSets,
  { mode }: CompareOptions,
): Difference[] {
  return [...pairsOf(expected, actual)].flatMap(({ key: name, wanted, found }): Difference[] => {
    const where = { set: name }
    if (!name.startsWith('KUBE-')) return []
    if (wanted && found) return compareSet(wanted, found)
    const show = (set: IpSet) => ({
      line: createLine(set),
      size: ` (${counted(set.members.size, 'member')})`,
    })
    return onlyOnOneSide(
      where,
      `ipset ${name}`,
      { wanted, found },
      show,
      `: mode ${mode} does not use it`,
    )
  })
}

function compareSet(wanted: IpSet, found: IpSet): Difference[] {
  const { name } = wanted
  const where = { set: name }
  const [expected, actual] = [createLine(wanted), createLine(found)]
  const sets = { expected: wanted.members, actual: found.members }
  const members = compareMembers(
    where,
    `ipset ${name}`,
    'member',
    sets,
    (member) => `add ${name} ${member}`,
  )
  if (expected === actual) return members
  return [
    {
      kind: 'wrong',
      where,
      expected,
      actual,
      text: `ipset ${name} is "${actual}", not "${expected}"`,
    },
    ...members,
  ]
}

function createLine(set: IpSet): string {
  const options = Object.entries(set.options)
    .filter(([option]) => !IGNORED_OPTIONS.has(option))
    .sort(([a], [b]) => (a < b ? -1 : 1))
  return [
    'create',
    set.name,
    set.type,
    ...options.map(([option, value]) => `${option} ${value}`.trimEnd()),
  ].join(' ')
}

/**
 * Compares virtual servers (unordered) with their scheduler, persistence and real servers. An
 * unexpected real server with weight 0 is being terminated gracefully and is not reported; neither
 * is a manually created virtual server that no packet for a Service reaches.
 */
export function compareVirtualServers(
  expected: NodeState,
  actual: NodeState,
  { mode }: CompareOptions,
): Difference[] {
  const others = otherVirtualServers(expected, actual)
  const byKey = (servers: readonly VirtualServer[]) =>
    new Map(servers.map((server) => [virtualServerKey(server), server]))
  const show = (server: VirtualServer) => ({ line: quote(server) })
  return [...pairsOf(byKey(expected.virtualServers), byKey(actual.virtualServers))].flatMap(
    ({ key, wanted, found }) => {
      const where = { virtualServer: key }
      if (wanted && found) return [...compareServer(key, wanted, found)]
      if (found && others.has(found)) return []
      const reason = `: no Service in mode ${mode} needs it`
      return onlyOnOneSide(where, `virtual server ${key}`, { wanted, found }, show, reason)
    },
  )
}

function* compareServer(
  key: string,
  wanted: VirtualServer,
  found: VirtualServer,
): Generator<Difference> {
  const where = { virtualServer: key }
  const [expected, actual] = [serviceLine(wanted), serviceLine(found)]
  if (expected !== actual)
    yield {
      kind: 'wrong',
      where,
      expected,
      actual,
      text: `virtual server ${key} is "${actual}", not "${expected}"`,
    }
  for (const { key: endpoint, ...real } of pairsOf(realServersBy(wanted), realServersBy(found))) {
    const title = `virtual server ${key}: `
    if (!real.found) {
      const text = `${title}missing real server ${endpoint}`
      yield { kind: 'missing', where, expected: realLine(wanted, real.wanted), text }
    } else if (!real.wanted) {
      const text = `${title}stale real server ${endpoint}`
      if (real.found.weight !== 0)
        yield { kind: 'stale', where, actual: realLine(found, real.found), text }
    } else if (describe(real.found) !== describe(real.wanted)) {
      const text = `${title}real server ${endpoint} is ${describe(real.found)}, not ${describe(real.wanted)}`
      const [expected, actual] = [realLine(wanted, real.wanted), realLine(found, real.found)]
      yield { kind: 'wrong', where, expected, actual, text }
    }
  }
}

const realServersBy = (server: VirtualServer): Map<string, RealServer> =>
  new Map(server.realServers.map((real) => [printEndpoint(real.address, real.port), real]))

const describe = (real: RealServer): string => `${real.forward} with weight ${real.weight}`

const quote = (server: VirtualServer): string => printIpvsadmSave([server]).trimEnd()

const serviceLine = (server: VirtualServer): string =>
  quote({ ...server, flags: [...server.flags].sort(), realServers: [] })

const realLine = (server: VirtualServer, real: RealServer | undefined): string =>
  quote({ ...server, realServers: real ? [real] : [] }).split('\n')[1] ?? ''

/** Compares kube-ipvs0 and the Service addresses bound to it. */
export function compareLinks(
  expected: readonly Link[],
  actual: readonly Link[],
  { mode }: CompareOptions,
): Difference[] {
  const where = { link: DUMMY_LINK }
  const title = `link ${DUMMY_LINK}`
  const [wanted, found] = [expected, actual].map((links) =>
    links.find(({ name }) => name === DUMMY_LINK),
  )
  const show = (link: Link) => {
    const addresses = addressesOf(link)
    return { line: [...addresses].join('\n'), size: ` (${addresses.size} addresses)` }
  }
  const reason = `: mode ${mode} does not use it`
  if (!wanted || !found) return onlyOnOneSide(where, title, { wanted, found }, show, reason)
  const sets = { expected: addressesOf(wanted), actual: addressesOf(found) }
  const addresses = compareMembers(where, title, 'address', sets)
  if (!wanted.kind || !found.kind || wanted.kind === found.kind) return addresses
  const text = `${title} is of kind ${found.kind}, not ${wanted.kind}`
  return [{ kind: 'wrong', where, expected: wanted.kind, actual: found.kind, text }, ...addresses]
}

/** `10.96.0.1/32`; link-local IPv6 addresses, which the kernel adds itself, are left out. */
function addressesOf(link: Link): Set<string> {
  const addresses = link.addresses.filter(({ address }) => !isIPv6LinkLocal(address))
  return new Set(addresses.map(({ address, prefixLength }) => `${address}/${prefixLength}`))
}

/**
 * Reports the node's ends of veth pairs that are down: the Pod behind such a link receives no
 * packet, regardless of the rules. Other links except kube-ipvs0 belong to the node or the network
 * plugin.
 */
export const linksDown = (links: readonly Link[]): Difference[] =>
  links
    .filter(
      ({ kind, name, flags }) =>
        (kind === 'veth' || name.startsWith('veth')) && !flags.includes('UP'),
    )
    .map(({ name, flags }) => ({
      kind: 'wrong',
      where: { link: name },
      expected: `${name} UP`,
      actual: `${name} <${flags.join(',')}>`,
      text: `link ${name} is down: the Pod behind it receives no packets`,
      interferes: true,
    }))
