import type { Link } from '../../dataplane/ip-addr.ts'
import { contains, printEndpoint } from '../../dataplane/ip-address.ts'
import { type IpSets, printIpsetSave } from '../../dataplane/ipset-save.ts'
import {
  printIpvsadmSave,
  type RealServer,
  type VirtualServer,
  virtualServerKey,
} from '../../dataplane/ipvsadm-save.ts'
import { DUMMY_LINK } from '../../dataplane/kube-proxy/mode-ownership.ts'

/** Input of `ipset restore` that creates missing sets and updates the members of all sets. */
export function ipsetInput(wanted: IpSets, held: IpSets): string {
  let input = ''
  for (const set of wanted.values()) {
    const present = held.get(set.name)
    if (!present) input += printIpsetSave(new Map([[set.name, set]]))
    else {
      for (const member of present.members) if (!set.members.has(member)) input += `del ${set.name} ${member}\n`
      for (const member of set.members) if (!present.members.has(member)) input += `add ${set.name} ${member}\n`
    }
  }
  return input
}

const dummyAddresses = (links: readonly Link[]) =>
  new Set(
    links
      .find(({ name }) => name === DUMMY_LINK)
      ?.addresses.map(({ address, prefixLength }) => `${address}/${prefixLength}`),
  )

/**
 * Inputs of `ip -batch`: the addresses that a sync adds to kube-ipvs0, and those that it removes after all rules are written.
 */
export function addressInputs(wanted: readonly Link[], held: readonly Link[]): { add: string; remove: string } {
  const target = dummyAddresses(wanted)
  const present = dummyAddresses(held)
  const exists = held.some(({ name }) => name === DUMMY_LINK)
  const added = [...target].filter((address) => !present.has(address))
  const removed = [...present].filter((address) => !target.has(address))
  const line = (verb: string) => (address: string) => `address ${verb} ${address} dev ${DUMMY_LINK}\n`
  return {
    add: (exists ? '' : `link add ${DUMMY_LINK} type dummy\n`) + added.map(line('add')).join(''),
    remove: removed.map(line('del')).join(''),
  }
}

/** A real server of one virtual server, as a key. */
export const realServerKey = (server: VirtualServer, real: Pick<RealServer, 'address' | 'port'>): string =>
  `${virtualServerKey(server)} ${printEndpoint(real.address, real.port)}`

export interface ServerChange {
  wanted: readonly VirtualServer[]
  held: readonly VirtualServer[]
  /** Keys of real servers (realServerKey) that still have connections: they get weight 0 instead of being deleted. */
  busy: ReadonlySet<string>
  /** Keys of real servers that an earlier sync gave weight 0. */
  terminating: ReadonlySet<string>
  /** The first sync after a start also corrects weights (kube-proxy 1.26). */
  first: boolean
  excludeCIDRs: readonly string[]
}

export interface ServerInputs {
  /** For `ipvsadm -R`, before the rules are written. */
  add: string
  /** For `ipvsadm -R`, afterwards: virtual servers without a Service. */
  remove: string
  /** Real servers that have weight 0 after this sync, waiting for their connections to end. */
  terminating: Set<string>
}

const serviceOf = (server: VirtualServer) =>
  printIpvsadmSave([{ ...server, realServers: [] }])
    .slice('-A '.length)
    .trimEnd()
const bareService = (server: VirtualServer) => serviceOf(server).split(' ').slice(0, 2).join(' ')

/**
 * The changes of virtual servers in a sync (pkg/proxy/ipvs syncService, syncEndpoint, cleanLegacyService): edits those that
 * differ, deletes all others outside `excludeCIDRs`, and keeps real servers with connections until these end.
 */
export function serverInputs(change: ServerChange): ServerInputs {
  const held = new Map(change.held.map((server) => [virtualServerKey(server), server]))
  const result: ServerInputs = { add: '', remove: '', terminating: new Set() }
  for (const server of change.wanted) {
    const present = held.get(virtualServerKey(server))
    held.delete(virtualServerKey(server))
    if (!present) result.add += printIpvsadmSave([server])
    else {
      if (serviceOf(present) !== serviceOf(server)) result.add += `-E ${serviceOf(server)}\n`
      result.add += realServerLines(server, present, change, result.terminating)
    }
  }
  for (const server of held.values()) {
    const excluded = server.protocol === 'FWM' || change.excludeCIDRs.some((range) => contains(range, server.address))
    if (!excluded) result.remove += `-D ${bareService(server)}\n`
  }
  return result
}

function realServerLines(
  server: VirtualServer,
  held: VirtualServer,
  { busy, terminating, first }: ServerChange,
  now: Set<string>,
): string {
  const service = bareService(server)
  const left = new Map(held.realServers.map((real) => [realServerKey(server, real), real]))
  let lines = ''
  for (const real of server.realServers) {
    const key = realServerKey(server, real)
    const present = left.get(key)
    left.delete(key)
    const at = `${service} -r ${printEndpoint(real.address, real.port)}`
    if (!present) lines += `-a ${at} -m -w ${real.weight}\n`
    else if (present.weight !== real.weight && (first || terminating.has(key)))
      lines += `-e ${at} -m -w ${real.weight}\n`
  }
  for (const [key, real] of left) {
    const at = `${service} -r ${printEndpoint(real.address, real.port)}`
    if (!busy.has(key)) {
      lines += `-d ${at}\n`
      continue
    }
    now.add(key)
    if (real.weight !== 0) lines += `-e ${at} -m -w 0\n`
  }
  return lines
}
