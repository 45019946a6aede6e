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

export interface ServerChange {
  wanted: readonly VirtualServer[]
  held: readonly VirtualServer[]
  /** The first sync after a start also corrects weights (kube-proxy 1.26). */
  first: boolean
  excludeCIDRs: readonly string[]
}

const serviceOf = (server: VirtualServer) =>
  printIpvsadmSave([{ ...server, realServers: [] }])
    .slice('-A '.length)
    .trimEnd()
const bareService = (server: VirtualServer) => serviceOf(server).split(' ').slice(0, 2).join(' ')

/**
 * The changes of virtual servers in a sync (pkg/proxy/ipvs syncService, syncEndpoint, cleanLegacyService), as inputs of `ipvsadm -R`: `add`
 * edits those that differ, before the rules are written; `remove` deletes all others outside `excludeCIDRs`, afterwards.
 */
export function serverInputs({ wanted, held, first, excludeCIDRs }: ServerChange): { add: string; remove: string } {
  const left = new Map(held.map((server) => [virtualServerKey(server), server]))
  let add = ''
  for (const server of wanted) {
    const present = left.get(virtualServerKey(server))
    left.delete(virtualServerKey(server))
    if (!present) add += printIpvsadmSave([server])
    else {
      if (serviceOf(present) !== serviceOf(server)) add += `-E ${serviceOf(server)}\n`
      add += realServerLines(server, present, first)
    }
  }
  const foreign = [...left.values()].filter(
    ({ protocol, address }) => protocol !== 'FWM' && !excludeCIDRs.some((range) => contains(range, address)),
  )
  return { add, remove: foreign.map((server) => `-D ${bareService(server)}\n`).join('') }
}

function realServerLines(server: VirtualServer, held: VirtualServer, first: boolean): string {
  const line = (verb: string, { address, port }: RealServer) =>
    `${verb} ${bareService(server)} -r ${printEndpoint(address, port)}`
  const left = new Map(held.realServers.map((real) => [printEndpoint(real.address, real.port), real]))
  let lines = ''
  for (const real of server.realServers) {
    const key = printEndpoint(real.address, real.port)
    const present = left.get(key)
    left.delete(key)
    if (!present) lines += `${line('-a', real)} -m -w ${real.weight}\n`
    else if (present.weight !== real.weight && first) lines += `${line('-e', real)} -m -w ${real.weight}\n`
  }
  return lines + [...left.values()].map((real) => `${line('-d', real)}\n`).join('')
}
