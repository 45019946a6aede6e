import { printIptablesSave, type Table } from '../../dataplane/iptables-save.ts'
import type { KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import { printNftTransactions } from '../../dataplane/nft-transaction.ts'
import type { NodeState } from '../../dataplane/node-state.ts'
import { readObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'
import { proxierInputs } from '../../embedded/index.ts'
import { type Cost, iptablesOf, type MeasuredCurve, type MeasuringNode } from './measuring-node.ts'
import {
  MEASURED_NODE,
  MEASURED_VERSION,
  SERVER,
  syntheticCluster,
  syntheticEndpoint,
} from './synthetic-cluster.ts'

const { restoreCommand, tableInput, addressInputs, ipsetInput, serverInputs } =
  await proxierInputs()

/** The commands that change a node from one state to another, each with its standard input. */
type Writes = (from: NodeState, to: NodeState) => [command: string, input: string][]

const nothing: NodeState = { iptables: new Map(), ipsets: new Map(), virtualServers: [], links: [] }

const nat = (state: NodeState): Table => state.iptables.get('nat') ?? new Map()
const rulesOf = (table: Table, chain: string) =>
  (table.get(chain)?.rules ?? []).map(({ spec }) => spec).join('\n')

/**
 * kube-proxy 1.27 and newer writes the chains that differ, and KUBE-SERVICES, which is always
 * written completely (syncProxyRules with partial sync).
 */
function changedChains(from: NodeState, to: NodeState): string {
  const wanted = nat(to)
  const differing = [...wanted.keys()].filter(
    (chain) => rulesOf(wanted, chain) !== rulesOf(nat(from), chain),
  )
  const remove = [...nat(from).keys()].filter((chain) => !wanted.has(chain))
  return tableInput('nat', {
    wanted,
    current: nat(from),
    write: new Set([...differing, 'KUBE-SERVICES']),
    remove,
  })
}

function changedServers(from: NodeState, to: NodeState): string {
  const [programmed, wanted] = [from.virtualServers, to.virtualServers]
  return serverInputs({ wanted, current: programmed, first: false, excludeCIDRs: [] }).add
}

/**
 * What is written at once fits into the send buffer of a netlink socket, which only root of the
 * machine can enlarge. A comment of iptables takes 256 bytes in the kernel (xt_comment), however
 * short it is.
 */
const BATCH_LENGTH = 15_000

/**
 * The input of iptables-restore in parts, in which chains come before the rules that jump to them.
 */
function inParts(restore: string): string[] {
  const parts: string[] = []
  for (const [table, rules] of splitTables(restore)) {
    let part = ''
    for (const line of rules) {
      if (part !== '' && part.length + line.length > BATCH_LENGTH) {
        parts.push(`*${table}\n${part}COMMIT\n`)
        part = ''
      }
      part += `${line}\n`
    }
    parts.push(`*${table}\n${part}COMMIT\n`)
  }
  return parts
}

/** The lines of each table, without its frame. */
const splitTables = (text: string): [name: string, lines: string[]][] =>
  [...text.matchAll(/^\*(\S+)\n(.*?)^COMMIT$/gms)].map(([, name = '', lines = '']) => [
    name,
    lines.split('\n').filter(Boolean),
  ])

const nftScripts = (from: NodeState, to: NodeState): string[] =>
  (to.nftables ?? []).flatMap((table) =>
    printNftTransactions(
      from.nftables?.find(({ family }) => family === table.family),
      table,
    ),
  )

interface CurveWriter {
  mode: KubeProxyMode
  /**
   * Whether a node is emptied before it is programmed for another number of Services; otherwise
   * what is missing is added.
   */
  empties?: string
  program: Writes
  change: Writes
}

const RESTORE_NFT = `${iptablesOf('iptables-nft')}${restoreCommand}`
const legacyIptables = iptablesOf('iptables-legacy')

/**
 * As a genuine kube-proxy of each mode writes: iptables rules as a whole, IPVS what is missing,
 * nftables what differs.
 */
const curves: Record<MeasuredCurve, CurveWriter> = {
  iptables: {
    mode: 'iptables',
    program: (_from, to) => [['iptables-restore', printIptablesSave(to.iptables)]],
    change: (from, to) => [[restoreCommand, changedChains(from, to)]],
  },
  'iptables-legacy': {
    mode: 'iptables',
    program: (_from, to) => [[`${legacyIptables}iptables-restore`, printIptablesSave(to.iptables)]],
    change: (from, to) => [[`${legacyIptables}${restoreCommand}`, changedChains(from, to)]],
  },
  'iptables-nft': {
    mode: 'iptables',
    empties: 'nft flush ruleset',
    program: (_from, to) =>
      inParts(printIptablesSave(to.iptables)).map((part) => [RESTORE_NFT, part]),
    change: (from, to) => inParts(changedChains(from, to)).map((part) => [RESTORE_NFT, part]),
  },
  ipvs: {
    mode: 'ipvs',
    program: (from, to) => [
      ['ip -batch -', addressInputs(to.links, from.links).add],
      ['ipvsadm -R', changedServers(from, to)],
      ['ipset restore', ipsetInput(to.ipsets, from.ipsets)],
      ['iptables-restore', printIptablesSave(to.iptables)],
    ],
    change: (from, to) => [['ipvsadm -R', changedServers(from, to)]],
  },
  nftables: {
    mode: 'nftables',
    empties: 'nft flush ruleset',
    program: (_from, to) => nftScripts(nothing, to).map((script) => ['nft -f -', script]),
    change: (from, to) => nftScripts(from, to).map((script) => ['nft -f -', script]),
  },
}

/**
 * A mode of kube-proxy on the measuring node: the input to the kernel of a genuine kube-proxy,
 * without its computation.
 */
export class ProgrammedMode {
  readonly #node: MeasuringNode
  readonly #curve: MeasuredCurve
  readonly #endpoints: number
  #programmed = nothing
  /** The state with another endpoint for the Service in the middle. */
  #other = nothing
  #spent: Cost = { ms: 0, cpuMs: 0 }

  constructor(node: MeasuringNode, curve: MeasuredCurve, endpoints: number) {
    this.#node = node
    this.#curve = curve
    this.#endpoints = endpoints
  }

  /**
   * Programs the node for this many Services. Returns the cost for an empty node; in IPVS mode the
   * sum of all additions.
   */
  async program(services: number): Promise<Cost> {
    const before = this.#programmed
    this.#predict(services)
    const { empties, program } = curves[this.#curve]
    if (empties !== undefined) await this.#node.run(empties)
    const cost = await this.#feed(program(before, this.#programmed))
    const earlier = this.#curve === 'ipvs' ? this.#spent : { ms: 0, cpuMs: 0 }
    this.#spent = { ms: earlier.ms + cost.ms, cpuMs: earlier.cpuMs + cost.cpuMs }
    return this.#spent
  }

  /** Replaces one endpoint of the Service in the middle; the next call restores the old one. */
  async change(): Promise<Cost> {
    const from = this.#programmed
    this.#programmed = this.#other
    this.#other = from
    return this.#feed(curves[this.#curve].change(from, this.#programmed))
  }

  #predict(services: number): void {
    const list = syntheticCluster(services, this.#endpoints, SERVER)
    const { mode } = curves[this.#curve]
    const options = { node: MEASURED_NODE, mode, version: MEASURED_VERSION } as const
    this.#programmed = predict(readObjects(list).objects, options)
    const endpoint = syntheticEndpoint(Math.floor((services - 1) / 2), this.#endpoints)
    const changed = JSON.stringify(list).replace(`"${endpoint}"`, '"12.0.0.1"')
    this.#other = predict(readObjects(JSON.parse(changed)).objects, options)
  }

  async #feed(writes: ReturnType<Writes>): Promise<Cost> {
    const total = { ms: 0, cpuMs: 0 }
    for (const [command, input] of writes) {
      const { ms, cpuMs } = await this.#node.feed(command, input)
      total.ms += ms
      total.cpuMs += cpuMs
    }
    return total
  }
}
