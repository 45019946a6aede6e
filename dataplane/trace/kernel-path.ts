import { printEndpoint } from '../ip-address.ts'
import { printIpvsadmSave, type RealServer, type VirtualServer, virtualServerKey } from '../ipvsadm-save.ts'
import type { NodeState } from '../node-state.ts'
import { describeFlow, type Flow } from './flow.ts'
import type { Surroundings } from './matches.ts'
import { findVirtualServer, type Share, scheduleShares, type VirtualServers } from './schedule.ts'
import type { Hook, Step } from './step.ts'
import { TableWalk } from './walk-chain.ts'

/** A packet that a rule (or a virtual server without real servers) stopped. */
export interface LostFlow {
  flow: Flow
  verdict: 'drop' | 'reject'
  by: Step
}

/**
 * The way of packets through the kernel: PREROUTING, the routing decision, INPUT or FORWARD, OUTPUT, POSTROUTING, each with
 * its tables in the kernel's order (linux/netfilter_ipv4.h), and IPVS between: at LOCAL_IN after filter, at LOCAL_OUT after
 * nat and before filter (net/netfilter/ipvs/ip_vs_core.c). What IPVS translates to another host passes LOCAL_OUT and
 * POSTROUTING (ip_vs_xmit.c, with net.ipv4.vs.conntrack=1, which kube-proxy sets).
 */
export class KernelPath {
  readonly delivered: Flow[] = []
  readonly lost: LostFlow[] = []
  readonly #state: NodeState
  readonly #servers: VirtualServers
  readonly #around: Surroundings
  readonly #walk: TableWalk
  readonly #record: (step: Step) => void

  constructor(state: NodeState, around: Surroundings, record: (step: Step) => void, matchingOnly = false) {
    this.#state = state
    this.#servers = new Map(state.virtualServers.map((server) => [virtualServerKey(server), server]))
    this.#around = around
    this.#record = record
    this.#walk = new TableWalk(around, record, matchingOnly)
  }

  /** A packet that comes in by an interface. */
  prerouting(entering: Flow): void {
    for (const flow of this.#tables('PREROUTING', ['raw', 'mangle', 'nat'], entering)) {
      if (this.#around.network.isLocal(flow.destination)) this.#input(flow)
      else this.#forward(flow)
    }
  }

  /** A packet that a process of the node (or IPVS) sends. */
  output(sent: Flow): void {
    const routed = this.#routed({ ...sent, inInterface: undefined })
    for (const natted of this.#tables('OUTPUT', ['raw', 'mangle', 'nat'], routed)) {
      // The kernel routes again what nat OUTPUT translated (nf_nat_ipv4_local_fn).
      const flow = this.#routed(natted)
      const shares = this.#virtualServer('OUTPUT', flow)
      if (!shares) this.#outputFilter(flow)
      else
        for (const scheduled of shares) this.#afterIpvs(scheduled, (local) => this.#outputFilter(this.#routed(local)))
    }
  }

  #outputFilter(flow: Flow): void {
    for (const passed of this.#tables('OUTPUT', ['filter', 'security'], flow)) this.#postrouting(passed)
  }

  #input(flow: Flow): void {
    for (const passed of this.#tables('INPUT', ['mangle', 'filter', 'security'], flow)) {
      const shares = this.#virtualServer('INPUT', passed)
      if (!shares) this.#deliverLocally(passed)
      else for (const scheduled of shares) this.#afterIpvs(scheduled, (local) => this.#deliverLocally(local))
    }
  }

  #deliverLocally(flow: Flow): void {
    this.delivered.push(...this.#tables('INPUT', ['nat'], flow))
  }

  /** A real server on this node gets the packet in place (`here`); one elsewhere gets it through LOCAL_OUT again. */
  #afterIpvs(flow: Flow, here: (flow: Flow) => void): void {
    if (this.#around.network.isLocal(flow.destination)) here(flow)
    else this.output(flow)
  }

  #forward(flow: Flow): void {
    const routed = this.#routed(flow)
    for (const passed of this.#tables('FORWARD', ['mangle', 'filter', 'security'], routed)) this.#postrouting(passed)
  }

  #postrouting(flow: Flow): void {
    const leaving = this.#routed({ ...flow, inInterface: undefined })
    for (const passed of this.#tables('POSTROUTING', ['mangle', 'nat'], leaving)) {
      if (this.#around.network.isLocal(passed.destination) && !passed.looped) {
        this.prerouting({ ...passed, looped: true, inInterface: 'lo', outInterface: undefined })
      } else this.delivered.push(passed)
    }
  }

  #routed(flow: Flow): Flow {
    return { ...flow, outInterface: this.#around.network.deviceTo(flow.destination) }
  }

  /** Walks the tables of a hook one after the other and gives back what got through all of them. */
  #tables(hook: Hook, tables: readonly string[], entering: Flow): Flow[] {
    let flows = [entering]
    for (const name of tables) {
      flows = flows.flatMap((flow) => (name === 'nat' ? this.#nat(hook, flow) : this.#table(hook, name, flow)))
    }
    return flows
  }

  /** nat is asked once per connection and direction: where an earlier hook has bound that side, its rules are not seen. */
  #nat(hook: Hook, flow: Flow): Flow[] {
    const side = hook === 'PREROUTING' || hook === 'OUTPUT' ? 'destinationBound' : 'sourceBound'
    if (flow[side] || !flow.tracked) return [flow]
    return this.#table(hook, 'nat', flow).map((passed) => ({ ...passed, [side]: true }))
  }

  #table(hook: Hook, name: string, flow: Flow): Flow[] {
    const passed: Flow[] = []
    for (const end of this.#walk.table(hook, name, this.#state.iptables.get(name), flow)) {
      if (end.verdict === 'accept') passed.push(end.flow)
      else this.lost.push({ flow: end.flow, verdict: end.verdict, by: end.by })
    }
    return passed
  }

  /** The packet as each real server of its virtual server gets it; undefined when IPVS has nothing to do with it. */
  #virtualServer(hook: Hook, flow: Flow): Flow[] | undefined {
    if (flow.ipvs) return undefined
    const server = findVirtualServer(this.#servers, flow)
    if (!server) return undefined
    const shares = scheduleShares(server)
    if (shares.length > 0) return shares.map((share) => this.#scheduled(hook, server, share, flow))
    const reason = server.realServers.length === 0 ? 'no real server' : 'no real server with a weight above 0'
    // ip_vs_leave answers with ICMP port unreachable, whatever the protocol.
    const by = this.#ipvsStep(hook, server, [], flow, 'REJECT', `${reason}: icmp-port-unreachable`)
    this.#record(by)
    this.lost.push({ flow, verdict: 'reject', by })
    return []
  }

  #scheduled(hook: Hook, server: VirtualServer, { real, share }: Share, flow: Flow): Flow {
    const probability = flow.probability * share
    const port = real.port === 0 || real.forward !== 'masq' ? flow.port : real.port
    const told = `scheduler ${server.scheduler} gives it a share of ${Number(share.toFixed(6))}`
    this.#record(
      this.#ipvsStep(
        hook,
        server,
        [real],
        { ...flow, probability },
        'DNAT',
        `to ${printEndpoint(real.address, port)}; ${told}`,
      ),
    )
    const { destination, port: virtualPort, protocol } = flow
    const ipvs = { address: destination, port: virtualPort, protocol, method: real.forward }
    return { ...flow, destination: real.address, port, probability, ipvs }
  }

  #ipvsStep(hook: Hook, server: VirtualServer, reals: RealServer[], flow: Flow, verdict: string, reason: string): Step {
    const rule = printIpvsadmSave([{ ...server, realServers: reals }]).split('\n')[reals.length] ?? ''
    const { probability } = flow
    const chain = virtualServerKey(server)
    return { hook, table: 'ipvs', chain, rule, verdict, matched: true, reason, probability, packet: describeFlow(flow) }
  }
}
