import { familyOf, printEndpoint } from '../ip-address.ts'
import {
  printIpvsadmSave,
  type RealServer,
  type VirtualServer,
  virtualServerKey,
} from '../ipvsadm-save.ts'
import type { NftTable } from '../nft-table.ts'
import type { NodeState } from '../node-state.ts'
import { type Flow, receiverOf, sighted } from './flow.ts'
import type { TraceContext } from './judge-rule.ts'
import { HOOKS, type Hook, type TraceStep, traceStep } from './step.ts'
import { ChainWalk, type HookEnd, iptablesRules, type RuleLanguage } from './walk-chain.ts'
import { nftablesRules } from './walk-nftables.ts'

interface BaseChain {
  priority: number
  isNat: boolean
  /** Undefined for a table of iptables that lacks the chain. */
  walk: ((flow: Flow) => HookEnd[]) | undefined
}

/** The tables of iptables with their hooks and priorities (linux/netfilter_ipv4.h). */
const TABLES: readonly {
  name: string
  hooks: readonly Hook[]
  priority: (hook: Hook) => number
}[] = [
  { name: 'raw', hooks: ['PREROUTING', 'OUTPUT'], priority: () => -300 },
  { name: 'mangle', hooks: HOOKS, priority: () => -150 },
  {
    name: 'nat',
    hooks: HOOKS.filter((hook) => hook !== 'FORWARD'),
    priority: (hook) => (isDestinationHook(hook) ? -100 : 100),
  },
  { name: 'filter', hooks: ['INPUT', 'FORWARD', 'OUTPUT'], priority: () => 0 },
  { name: 'security', hooks: ['INPUT', 'FORWARD', 'OUTPUT'], priority: () => 50 },
]
/**
 * The priorities of IPVS at LOCAL_OUT and LOCAL_IN (ip_vs_ops4 of net/netfilter/ipvs/ip_vs_core.c).
 */
const IPVS_OUTPUT = -99
const IPVS_INPUT = 99

/** Types of routes whose packets the kernel discards. */
export const REFUSING: ReadonlySet<string> = new Set(['blackhole', 'unreachable', 'prohibit'])
/** The "table" of a step at which the node's route, not a rule, decides. */
export const ROUTES = 'routes'

const isDestinationHook = (hook: Hook): boolean => hook === 'PREROUTING' || hook === 'OUTPUT'

type LostFlow = HookEnd & { verdict: 'drop' | 'reject' }

/**
 * The path of packets through the kernel: PREROUTING, the routing decision, INPUT or FORWARD,
 * OUTPUT, POSTROUTING, each with the tables of iptables and the base chains of nf_tables in the
 * order of their priorities, and IPVS between: at LOCAL_IN after filter, at LOCAL_OUT after nat and
 * before filter. Packets that IPVS translates to another host pass LOCAL_OUT and POSTROUTING
 * (ip_vs_xmit.c, with net.ipv4.vs.conntrack=1, which kube-proxy sets).
 */
export class KernelPath {
  readonly delivered: Flow[] = []
  readonly lost: LostFlow[] = []
  /** Hooks that packets reached, in the order of the first packet. */
  readonly hooks = new Set<Hook>()
  readonly #state: NodeState
  readonly #context: TraceContext
  readonly #matchingOnly: boolean
  readonly #baseChains = new Map<Hook, BaseChain[]>()
  readonly #record: (step: TraceStep) => void

  constructor(
    state: NodeState,
    context: TraceContext,
    record: (step: TraceStep) => void,
    matchingOnly = false,
  ) {
    this.#state = state
    this.#context = context
    this.#record = record
    this.#matchingOnly = matchingOnly
  }

  /** Processes a packet that arrives at an interface. */
  prerouting(entering: Flow): void {
    for (const flow of this.#hook('PREROUTING', entering)) {
      if (this.#context.network.isLocal(flow.destination)) this.#input(flow)
      else this.#forward(flow)
    }
  }

  /** Processes a packet that a process of the node (or IPVS) sends. */
  output(sent: Flow): void {
    const routed = this.#routed({ ...sent, inInterface: undefined })
    for (const natted of this.#hook('OUTPUT', routed, { before: IPVS_OUTPUT })) {
      // The kernel routes a packet again after nat OUTPUT translated it (nf_nat_ipv4_local_fn).
      for (const flow of this.#schedule('OUTPUT', this.#routed(natted)))
        for (const sendable of this.#unlessRefused('OUTPUT', this.#routed(flow)))
          for (const passed of this.#hook('OUTPUT', sendable, { from: IPVS_OUTPUT }))
            this.#postrouting(passed)
    }
  }

  #input(flow: Flow): void {
    for (const filtered of this.#hook('INPUT', flow, { before: IPVS_INPUT }))
      for (const passed of this.#schedule('INPUT', filtered))
        this.delivered.push(...this.#hook('INPUT', passed, { from: IPVS_INPUT }))
  }

  #forward(flow: Flow): void {
    for (const routed of this.#unlessRefused('FORWARD', this.#routed(flow)))
      for (const passed of this.#hook('FORWARD', routed)) this.#postrouting(passed)
  }

  /**
   * The packet, unless its route is one that refuses packets (ip-route(8): blackhole, unreachable,
   * prohibit).
   */
  *#unlessRefused(hook: Hook, flow: Flow): Generator<Flow> {
    const { network } = this.#context
    const receiver = receiverOf(flow)
    const route = network.isLocal(receiver) ? undefined : network.routeTo(receiver)
    if (!route || !REFUSING.has(route.type)) {
      yield flow
      return
    }
    const verdict = route.type === 'blackhole' ? 'DROP' : 'REJECT'
    const rule = `${route.type} ${route.destination}`
    const reason = `the route to ${receiver} is ${route.type}`
    const by = traceStep({ hook, table: ROUTES, chain: 'main', rule, verdict, reason }, flow)
    this.#record(by)
    this.lost.push({ flow, verdict: verdict === 'DROP' ? 'drop' : 'reject', by })
  }

  #postrouting(flow: Flow): void {
    const leaving = this.#routed({ ...flow, inInterface: undefined })
    for (const passed of this.#hook('POSTROUTING', leaving)) {
      if (this.#context.network.isLocal(receiverOf(passed)) && !passed.looped) {
        this.prerouting({ ...passed, looped: true, inInterface: 'lo', outInterface: undefined })
      } else this.delivered.push(passed)
    }
  }

  #routed(flow: Flow): Flow {
    return { ...flow, outInterface: this.#context.network.deviceTo(receiverOf(flow)) }
  }

  /**
   * Evaluates the tables and base chains of a hook in the order of their priorities; returns the
   * flows that pass.
   */
  #hook(hook: Hook, entering: Flow, { from = -Infinity, before = Infinity } = {}): Flow[] {
    this.hooks.add(hook)
    const side = isDestinationHook(hook) ? 'destinationBound' : 'sourceBound'
    const isTranslated = (flow: Flow) =>
      isDestinationHook(hook) ? flow.translated : flow.sourceTranslated
    const family = familyOf(entering.destination) === 'ipv6' ? 'ip6' : 'ip'
    const chains = this.#baseChainsAt(hook, family).filter(
      ({ priority }) => priority >= from && priority < before,
    )
    let flows = [entering]
    for (const { isNat, walk } of chains)
      flows = flows.flatMap((flow) => {
        // nat applies once per connection and side: the first chain that translates binds it, and
        // later ones are skipped.
        if (!walk || (isNat && (flow[side] || !flow.tracked))) return [flow]
        const passed = this.#passed(walk(flow))
        return isNat
          ? passed.map((one) => ({ ...one, [side]: !isTranslated(flow) && isTranslated(one) }))
          : passed
      })
    const isBound = chains.some(({ isNat }) => isNat)
    const bound = isBound
      ? flows.map((flow) => (flow.tracked ? { ...flow, [side]: true } : flow))
      : flows
    return bound.map((flow) => sighted(flow, hook))
  }

  #passed(ends: readonly HookEnd[]): Flow[] {
    const passed: Flow[] = []
    for (const { flow, verdict, by } of ends) {
      if (verdict === 'accept') passed.push(flow)
      else this.lost.push({ flow, verdict, by })
    }
    return passed
  }

  #baseChainsAt(hook: Hook, family: NftTable['family']): BaseChain[] {
    const known = this.#baseChains.get(hook)
    if (known) return known
    const { iptables, nftables = [], foreignNftables = [] } = this.#state
    const walkOf = <AnyRule>(
      rules: RuleLanguage<AnyRule>,
      chain: string,
      policy: Pick<TraceStep, 'rule' | 'verdict'>,
    ) => {
      const walk = new ChainWalk(rules, hook, this.#record, this.#matchingOnly)
      return (flow: Flow) => walk.baseChain(chain, policy, flow)
    }
    const here = TABLES.filter(({ hooks }) => hooks.includes(hook))
    const chains = here.map(({ name, priority }): BaseChain => {
      const table = iptables.get(name) ?? new Map()
      const verdict = table.get(hook)?.policy
      const rules = iptablesRules(name, table, this.#context, this.#matchingOnly)
      const walk = verdict && walkOf(rules, hook, { rule: `-P ${hook} ${verdict}`, verdict })
      return { priority: priority(hook), isNat: name === 'nat', walk }
    })
    for (const table of [...nftables, ...foreignNftables]) {
      if (table.dormant) continue
      // iptables-nft stores its tables in nf_tables; they were read with iptables-save.
      if (table.family !== 'inet' && (table.family !== family || iptables.has(table.name))) continue
      for (const [name, { base }] of table.chains) {
        if (base?.hook !== hook.toLowerCase()) continue
        const { priority, type, policy = 'accept' } = base
        const rules = nftablesRules(table, this.#context)
        const walk = walkOf(rules, name, {
          rule: `policy ${policy}`,
          verdict: policy.toUpperCase(),
        })
        chains.push({ priority, isNat: type === 'nat', walk })
      }
    }
    chains.sort((one, other) => one.priority - other.priority)
    this.#baseChains.set(hook, chains)
    return chains
  }

  /**
   * The packets that stay on their path: those of no virtual server, and those to a real server on
   * this node. One to a real server on another node goes out through LOCAL_OUT.
   */
  *#schedule(hook: Hook, flow: Flow): Generator<Flow> {
    const server = flow.ipvs ? undefined : findVirtualServer(this.#state.virtualServers, flow)
    if (!server) {
      yield flow
      return
    }
    const shares = scheduleShares(server)
    if (shares.length === 0) {
      const reason =
        server.realServers.length === 0 ? 'no real server' : 'no real server with a weight above 0'
      // ip_vs_leave sends ICMP port unreachable for every protocol.
      const by = this.#ipvsStep(
        hook,
        server,
        [],
        flow,
        'REJECT',
        `${reason}: icmp-port-unreachable`,
      )
      this.#record(by)
      this.lost.push({ flow, verdict: 'reject', by })
    }
    // Every real server is a step of this hook, which comes before those of the next one.
    for (const scheduled of shares.map((share) => this.#scheduled(hook, server, share, flow)))
      if (this.#context.network.isLocal(receiverOf(scheduled))) yield scheduled
      else this.output(scheduled)
  }

  #scheduled(hook: Hook, server: VirtualServer, { real, share }: Share, flow: Flow): Flow {
    const probability = flow.probability * share
    const port = real.port === 0 || real.forward !== 'masq' ? flow.port : real.port
    const summary = `scheduler ${server.scheduler} gives it a share of ${Number(share.toFixed(6))}`
    const change = `to ${printEndpoint(real.address, port)}`
    const step = this.#ipvsStep(
      hook,
      server,
      [real],
      { ...flow, probability },
      'DNAT',
      `${change}; ${summary}`,
    )
    this.#record({ ...step, change })
    const { destination, port: virtualPort, protocol } = flow
    const ipvs = { address: destination, port: virtualPort, protocol, method: real.forward }
    const sent =
      real.forward === 'route' ? { frameTo: real.address } : { destination: real.address, port }
    return sighted({ ...flow, ...sent, probability, ipvs }, hook, true)
  }

  #ipvsStep(
    hook: Hook,
    server: VirtualServer,
    reals: RealServer[],
    flow: Flow,
    verdict: string,
    reason: string,
  ): TraceStep {
    const rule =
      printIpvsadmSave([{ ...server, realServers: reals }]).split('\n')[reals.length] ?? ''
    return traceStep(
      { hook, table: 'ipvs', chain: virtualServerKey(server), rule, verdict, reason },
      flow,
    )
  }
}

interface Share {
  real: RealServer
  share: number
}

/**
 * Schedulers that ignore weights except 0: all other real servers are equally likely. With hashing
 * schedulers (sh, dh, mh) the client determines the server, which for an unknown client is
 * equivalent. Source: net/netfilter/ipvs/ip_vs_*.c.
 */
const UNWEIGHTED = new Set(['rr', 'lc', 'dh', 'lblc', 'lblcr'])

/**
 * The virtual server for a packet: by firewall mark first, then by address and port, then by port 0
 * (any port).
 */
function findVirtualServer(
  servers: readonly VirtualServer[],
  flow: Flow,
): VirtualServer | undefined {
  const find = (protocol: string, address: string, port: number) =>
    servers.find(
      (server) =>
        server.protocol === protocol && server.address === address && server.port === port,
    )
  const protocol = flow.protocol.toUpperCase()
  const marked = flow.mark === 0 ? undefined : find('FWM', `${flow.mark}`, 0)
  return (
    marked ?? find(protocol, flow.destination, flow.port) ?? find(protocol, flow.destination, 0)
  )
}

/** The distribution of new connections over the real servers; empty if there is no usable one. */
function scheduleShares(server: VirtualServer): Share[] {
  const usable = server.realServers.filter(({ weight }) => weight > 0)
  // Weighted failover: the real server with the highest weight gets all connections.
  const chosen =
    server.scheduler === 'fo' ? usable.sort((a, b) => b.weight - a.weight).slice(0, 1) : usable
  const weightOf = (real: RealServer) => (UNWEIGHTED.has(server.scheduler) ? 1 : real.weight)
  const total = chosen.reduce((sum, real) => sum + weightOf(real), 0)
  return chosen.map((real) => ({ real, share: weightOf(real) / total }))
}
