import { printIptablesSave, type Table } from '../../dataplane/iptables-save.ts'
import type { FlushedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { printNftTransactions } from '../../dataplane/nft-table.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { readObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'
import { addressInputs, ipsetInput, restoreCommand, serverInputs, tableInput } from '../../embedded/index.ts'
import type { Cost, MeasuringNode } from './measuring-node.ts'
import { MEASURED_NODE, MEASURED_VERSION, SERVER, syntheticCluster } from './synthetic-cluster.ts'

/** A mode of kube-proxy on the measuring node: the same input to the kernel as from a genuine kube-proxy, without its computation. */
export interface ProgrammedMode {
  /**
   * Programs the node for this many Services and returns the cost of programming an empty node: iptables rules are loaded as a whole,
   * IPVS adds to the existing state, and the costs of the parts are added up.
   */
  program(services: number): Promise<Cost>
  /** Replaces one endpoint of the Service in the middle; the next call restores the old one. */
  change(): Promise<Cost>
}

const together = (costs: readonly Cost[]): Cost => ({
  ms: costs.reduce((total, { ms }) => total + ms, 0),
  cpuMs: costs.reduce((total, { cpuMs }) => total + cpuMs, 0),
})

/** The predicted state, and the state with another endpoint for the Service in the middle. */
function predictBoth(mode: FlushedMode, services: number, endpoints: number): [NodeState, NodeState] {
  const list = syntheticCluster(services, endpoints, SERVER)
  const options = { node: MEASURED_NODE, mode, version: MEASURED_VERSION } as const
  const initial = predict(readObjects(list).objects, options)
  const changed = JSON.stringify(list).replace(`"${endpointInTheMiddle(services, endpoints)}"`, '"12.0.0.1"')
  return [initial, predict(readObjects(JSON.parse(changed)).objects, options)]
}

/** The first endpoint of the Service in the middle, as the synthetic cluster numbers them. */
function endpointInTheMiddle(services: number, endpoints: number): string {
  const number = Math.floor((services - 1) / 2) * endpoints + 1
  return `11.${(number >> 16) & 255}.${(number >> 8) & 255}.${number & 255}`
}

const nat = (state: NodeState): Table => state.iptables.get('nat') ?? new Map()
const rulesOf = (table: Table, chain: string) => (table.get(chain)?.rules ?? []).map(({ spec }) => spec).join('\n')

/**
 * The iptables-restore input of kube-proxy 1.27 and newer for a change: the chains of that Service, and KUBE-SERVICES, which is
 * always written completely (syncProxyRules with partial sync).
 */
function changeInput(from: NodeState, to: NodeState): string {
  const wanted = nat(to)
  const differing = [...wanted.keys()].filter((chain) => rulesOf(wanted, chain) !== rulesOf(nat(from), chain))
  const remove = [...nat(from).keys()].filter((chain) => !wanted.has(chain))
  return tableInput('nat', { wanted, held: nat(from), write: new Set([...differing, 'KUBE-SERVICES']), remove })
}

/** Returns two inputs alternately. */
function alternate(inputs: readonly [string, string]): () => string {
  let turn = 0
  return () => inputs[turn++ % 2] ?? ''
}

/** iptables mode: all rules through iptables-restore. */
export function iptablesMode(node: MeasuringNode, endpoints: number): ProgrammedMode {
  let next: () => string = () => ''
  return {
    program(services) {
      const [initial, changed] = predictBoth('iptables', services, endpoints)
      next = alternate([changeInput(initial, changed), changeInput(changed, initial)])
      return node.feed('iptables-restore', printIptablesSave(initial.iptables))
    },
    change: () => node.feed(restoreCommand, next()),
  }
}

const serversInput = (held: NodeState, wanted: NodeState) =>
  serverInputs({
    wanted: wanted.virtualServers,
    held: held.virtualServers,
    first: false,
    excludeCIDRs: [],
  }).add

const nothing: NodeState = { iptables: new Map(), ipsets: new Map(), virtualServers: [], links: [] }

/** IPVS mode: sets, addresses and virtual servers are added, and the same few rules are restored. */
export function ipvsMode(node: MeasuringNode, endpoints: number): ProgrammedMode {
  let held = nothing
  let spent: Cost = { ms: 0, cpuMs: 0 }
  let next: () => string = () => ''
  return {
    async program(services) {
      const [initial, changed] = predictBoth('ipvs', services, endpoints)
      const before = held
      held = initial
      next = alternate([serversInput(initial, changed), serversInput(changed, initial)])
      const costs = [
        await node.feed('ip -batch -', addressInputs(initial.links, before.links).add),
        await node.feed('ipvsadm -R', serversInput(before, initial)),
        await node.feed('ipset restore', ipsetInput(initial.ipsets, before.ipsets)),
        await node.feed('iptables-restore', printIptablesSave(initial.iptables)),
      ]
      spent = together([spent, ...costs])
      return spent
    },
    change: () => node.feed('ipvsadm -R', next()),
  }
}

/** nftables mode: a table a family, of which a change writes what differs. */
export function nftablesMode(node: MeasuringNode, endpoints: number): ProgrammedMode {
  const scripts = (from: NodeState | undefined, to: NodeState) =>
    (to.nftables ?? []).flatMap((table) =>
      printNftTransactions(
        from?.nftables?.find(({ family }) => family === table.family),
        table,
      ),
    )
  let next: () => string = () => ''
  return {
    async program(services) {
      const [standing, changed] = predictBoth('nftables', services, endpoints)
      next = alternate([scripts(standing, changed).join(''), scripts(changed, standing).join('')])
      const costs: Cost[] = []
      for (const script of scripts(undefined, standing)) costs.push(await node.feed('nft -f -', script))
      return together(costs)
    },
    change: () => node.feed('nft -f -', next()),
  }
}
