import type { Link } from '../../dataplane/ip-addr.ts'
import { contains, printEndpoint } from '../../dataplane/ip-address.ts'
import { type IpSet, type IpSets, printIpsetSave } from '../../dataplane/ipset-save.ts'
import { printIptablesSave } from '../../dataplane/iptables-save.ts'
import {
  parseIpvsadmList,
  printIpvsadmSave,
  type RealServer,
  type VirtualServer,
  virtualServerKey,
} from '../../dataplane/ipvsadm-save.ts'
import { DUMMY_LINK } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { programText } from '../../host/program-text.ts'
import { type GuestNode, restoreCommand, type StepsResult, type Sysctl } from './guest-node.ts'
import { fullInput } from './iptables-proxier.ts'
import { Proxier, type SyncChange } from './proxier.ts'
import { type Logger, StartFailure } from './settings.ts'

const ownSysctls: readonly Sysctl[] = [
  ['net/ipv4/vs/conntrack', 1],
  ['net/ipv4/vs/expire_nodest_conn', 1],
  ['net/ipv4/vs/expire_quiescent_template', 1],
  ['net/ipv4/ip_forward', 1],
]
/** Not reset when strictARP is disabled, as in the genuine kube-proxy. */
const strictARP: readonly Sysctl[] = [
  ['net/ipv4/conf/all/arp_ignore', 1],
  ['net/ipv4/conf/all/arp_announce', 2],
]

/**
 * kube-proxy's IPVS mode. Its few rules do not depend on the number of Services, so most changes
 * leave them as they are.
 */
export class IpvsProxier extends Proxier {
  readonly maxIntervalMs = this.context.settings.syncPeriodMs
  protected readonly mode = 'ipvs'
  protected readonly failure = ['proxier.go:1383', 'Failed to sync ipvs rules'] as const
  #first = true
  /**
   * The real servers (realServerKey) without an endpoint that keep their connections with weight 0.
   */
  #draining: ReadonlySet<string> = new Set()

  override readonly sysctls = this.context.settings.config.ipvs.strictARP
    ? [...ownSysctls, ...strictARP]
    : ownSysctls

  async prepare(): Promise<void> {
    const { guest, log, settings } = this.context
    await checkIpvs(guest, settings.config.ipvs.scheduler, log)
    log('I', 'server_linux.go:182', 'Using ipvs Proxier')
  }

  protected read(): Promise<NodeState> {
    return this.context.guest.read('iptables', 'ipsets', 'virtualServers', 'links')
  }

  protected async write({ wanted, current, full }: SyncChange): Promise<StepsResult> {
    const { guest, settings } = this.context
    // What was programmed has none of the draining real servers: a genuine kube-proxy reads the
    // node in each sync.
    const { virtualServers } =
      full || this.#draining.size === 0 ? current : await guest.read('virtualServers')
    const kept = await this.#keptFor(wanted.virtualServers, virtualServers)
    const servers = serverInputs({
      wanted: wanted.virtualServers,
      current: virtualServers,
      kept,
      draining: this.#draining,
      first: this.#first,
      excludeCIDRs: settings.config.ipvs.excludeCIDRs,
    })
    const addresses = addressInputs(wanted.links, current.links)
    const sameRules =
      !full && printIptablesSave(wanted.iptables) === printIptablesSave(current.iptables)
    const result = await guest.apply([
      { command: 'ipset restore -exist', input: ipsetInput(wanted.ipsets, current.ipsets) },
      { command: 'ip -force -batch -', input: addresses.add },
      { command: 'ipvsadm -R', input: servers.add, complains: true },
      // Addresses and virtual servers are removed only after no rule needs them.
      {
        command: restoreCommand,
        input: sameRules ? '' : fullInput(wanted.iptables, current.iptables),
        needed: true,
      },
      { command: 'ip -force -batch -', input: addresses.remove },
      { command: 'ipvsadm -R', input: servers.remove, complains: true },
    ])
    if (result.ok) this.#first = false
    this.#draining = result.ok ? kept : new Set([...this.#draining, ...kept])
    return result
  }

  /**
   * Keys of TCP real servers whose endpoint has gone and whose connections have not (pkg/proxy/ipvs
   * graceful_termination.go).
   */
  async #keptFor(
    wanted: readonly VirtualServer[],
    current: readonly VirtualServer[],
  ): Promise<Set<string>> {
    const keys = (servers: readonly VirtualServer[]) =>
      servers.flatMap((server) => server.realServers.map((real) => realServerKey(server, real)))
    const endpoints = new Set(keys(wanted))
    const services = new Set(wanted.map(virtualServerKey))
    const waits = (server: VirtualServer) =>
      server.protocol === 'TCP' && services.has(virtualServerKey(server))
    const gone = keys(current.filter(waits)).filter((key) => !endpoints.has(key))
    if (gone.length === 0) return new Set()
    const connections = parseIpvsadmList((await this.context.guest.run('ipvsadm -Ln\n')).stdout)
    return new Set(
      gone.filter((key) => {
        const { active, inactive } = connections.get(key) ?? { active: 0, inactive: 0 }
        return active + inactive > 0
      }),
    )
  }
}

/** A real server of one virtual server, as a key: `TCP 10.96.0.1:80 10.244.1.2:80`. */
const realServerKey = (server: VirtualServer, { address, port }: RealServer): string =>
  `${virtualServerKey(server)} ${printEndpoint(address, port)}`

/**
 * kube-proxy's test of a kernel before it runs in IPVS mode (1.27–1.34: CanUseIPVSProxier): IPVS is
 * present, ipset runs, and a virtual server with the scheduler can be created on a test address of
 * RFC 5737. The modprobe replaces the loading of modules that a genuine kube-proxy's netlink
 * request causes.
 */
const probe = programText('embedded/kube-proxy/probe-ipvs.sh')

/** @throws StartFailure with kube-proxy's message if the kernel does not support it */
async function checkIpvs(node: GuestNode, scheduler: string, log: Logger): Promise<void> {
  const safe = /^[\w-]+$/.test(scheduler) ? scheduler : 'no-such-scheduler'
  const { stdout } = await node.run(`set -- ${safe}\n${probe}`)
  const answer = stdout.trim()
  if (answer === 'fine') return
  let reason = 'Ipvs not supported by the kernel'
  if (answer.startsWith('no-ipset'))
    reason = `error getting ipset version, error: ${answer.slice(9)}`
  else if (answer === 'no-scheduler') {
    reason = 'no such file or directory'
    log('E', 'proxier.go:651', 'Could not create dummy VS', { err: reason, scheduler })
  }
  throw new StartFailure(`can't use the IPVS proxier: ${reason}`)
}

/** Input of `ipset restore` that creates missing sets and updates the members of all sets. */
export function ipsetInput(wanted: IpSets, current: IpSets): string {
  let input = ''
  for (const set of wanted.values()) {
    const present = current.get(set.name)
    input += present ? memberLines(set, present) : printIpsetSave(new Map([[set.name, set]]))
  }
  return input
}

/** The lines that delete and add members of an existing set. */
function memberLines({ name, members }: IpSet, present: IpSet): string {
  let lines = ''
  for (const member of present.members) if (!members.has(member)) lines += `del ${name} ${member}\n`
  for (const member of members) if (!present.members.has(member)) lines += `add ${name} ${member}\n`
  return lines
}

const dummyAddresses = (links: readonly Link[]) =>
  new Set(
    links
      .find(({ name }) => name === DUMMY_LINK)
      ?.addresses.map(({ address, prefixLength }) => `${address}/${prefixLength}`),
  )

/**
 * Inputs of `ip -batch`: addresses that a sync adds to kube-ipvs0, and those that it removes after
 * all rules are written.
 */
export function addressInputs(
  wanted: readonly Link[],
  current: readonly Link[],
): { add: string; remove: string } {
  const target = dummyAddresses(wanted)
  const present = dummyAddresses(current)
  const exists = current.some(({ name }) => name === DUMMY_LINK)
  const added = [...target].filter((address) => !present.has(address))
  const removed = [...present].filter((address) => !target.has(address))
  const line = (verb: string) => (address: string) =>
    `address ${verb} ${address} dev ${DUMMY_LINK}\n`
  return {
    add: (exists ? '' : `link add ${DUMMY_LINK} type dummy\n`) + added.map(line('add')).join(''),
    remove: removed.map(line('del')).join(''),
  }
}

export interface ServerChange {
  wanted: readonly VirtualServer[]
  current: readonly VirtualServer[]
  /** Keys of real servers that get weight 0 instead of being deleted. */
  kept?: ReadonlySet<string>
  /** Keys of real servers that an earlier sync gave weight 0. */
  draining?: ReadonlySet<string>
  /** The first sync after a start also corrects weights (kube-proxy 1.26). */
  first: boolean
  excludeCIDRs: readonly string[]
}

const ipvsServiceText = (server: VirtualServer) =>
  printIpvsadmSave([{ ...server, realServers: [] }])
    .slice('-A '.length)
    .trimEnd()
const bareService = (server: VirtualServer) =>
  ipvsServiceText(server).split(' ').slice(0, 2).join(' ')

/**
 * The changes of virtual servers in a sync (pkg/proxy/ipvs syncService, syncEndpoint,
 * cleanLegacyService), as inputs of `ipvsadm -R`: `add` edits those that differ, before the rules
 * are written; `remove` deletes all others outside `excludeCIDRs`, afterwards.
 */
export function serverInputs(change: ServerChange): { add: string; remove: string } {
  const { wanted, current: existing, excludeCIDRs } = change
  const left = new Map(existing.map((server) => [virtualServerKey(server), server]))
  let add = ''
  for (const server of wanted) {
    const present = left.get(virtualServerKey(server))
    left.delete(virtualServerKey(server))
    if (!present) add += printIpvsadmSave([server])
    else {
      if (ipvsServiceText(present) !== ipvsServiceText(server))
        add += `-E ${ipvsServiceText(server)}\n`
      add += realServerLines(server, present, change)
    }
  }
  const foreign = [...left.values()].filter(
    ({ protocol, address }) =>
      protocol !== 'FWM' && !excludeCIDRs.some((range) => contains(range, address)),
  )
  return { add, remove: foreign.map((server) => `-D ${bareService(server)}\n`).join('') }
}

function realServerLines(
  server: VirtualServer,
  current: VirtualServer,
  { kept, draining, first }: ServerChange,
): string {
  const line = (verb: string, { address, port }: RealServer) =>
    `${verb} ${bareService(server)} -r ${printEndpoint(address, port)}`
  const left = new Map(current.realServers.map((real) => [realServerKey(server, real), real]))
  let lines = ''
  for (const real of server.realServers) {
    const key = realServerKey(server, real)
    const present = left.get(key)
    left.delete(key)
    if (!present) lines += `${line('-a', real)} -m -w ${real.weight}\n`
    else if (present.weight !== real.weight && (first || draining?.has(key)))
      lines += `${line('-e', real)} -m -w ${real.weight}\n`
  }
  for (const [key, real] of left)
    lines += kept?.has(key) ? `${line('-e', real)} -m -w 0\n` : `${line('-d', real)}\n`
  return lines
}
