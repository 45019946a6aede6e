// The state of the nodes as pushes: one for each moment at which something changed, and counters in
// between.

import { isDeepStrictEqual } from 'node:util'
import { printEndpoint } from '../../dataplane/ip-address.ts'
import { parseIpvsadmList } from '../../dataplane/ipvsadm-save.ts'
import { type Cause, type Causes, causesOf } from '../../dataplane/view/causes.ts'
import { addMoment, type TimelinePoint } from '../../dataplane/view/changes.ts'
import { holdingEntries, holdingsOf, type NodeHoldings } from '../../dataplane/view/holdings.ts'
import { predictOptions } from '../../grading/evaluate.ts'
import { Trouble } from '../../grading/failure.ts'
import {
  filesOf,
  modeOf,
  type NodeView,
  objectsOf,
  type Snapshot,
  stateOf,
} from '../../grading/snapshot.ts'
import type { CountersPush, DataplanePush, MovedCounter, TimelinePush } from '../protocol.ts'
import type { CommandLog } from './command-log.ts'

/** The maximum number of entries of a node that is sent: a browser cannot render more. */
const MOST_ENTRIES = 20_000

/** The characters of a change that name a moment. */
const LABEL = 70

type Counter = Pick<MovedCounter, 'packets' | 'connections'>
type CauseTable = Pick<DataplanePush, 'causes' | 'causedBy'>

export class DataplaneView {
  readonly #outside: boolean
  #moments: TimelinePoint[] = []
  readonly #commands: CommandLog
  /** When the read before began: what changed since then is new in the next one. */
  #readAt: number | undefined
  /** What made the changes of the latest moment. */
  #by: string | undefined
  #snapshot: Snapshot | undefined
  #causes: CauseTable = { causes: [], causedBy: {} }
  #decisive = ''

  /** `outside`: whether there is a machine outside the cluster. */
  constructor(outside: boolean, commands: CommandLog) {
    this.#outside = outside
    this.#commands = commands
  }

  /** The latest snapshot; undefined before the first. */
  get snapshot(): Snapshot | undefined {
    return this.#snapshot
  }

  /**
   * Adds a snapshot whose read began at `readAt`. Returns the state to push, whether more than
   * counters is new in it, and the counters that changed.
   */
  see(
    snapshot: Snapshot,
    readAt = Date.now(),
  ): { latest: DataplanePush; isNew: boolean; counters?: CountersPush } {
    this.#snapshot = snapshot
    const before = this.#moments.at(-1)
    this.#moments = addMoment(this.#moments, Date.now(), this.read(snapshot))
    const moment = this.#latest
    const { number, at, nodes, changes } = moment
    const isOtherMoment = number !== before?.number
    if (isOtherMoment) {
      this.#by =
        this.#readAt === undefined ? undefined : this.#commands.culprit(this.#readAt, moment.at)
      moment.label = this.#labelOf(moment)
    }
    this.#readAt = readAt
    const ends = endsIn(snapshot, this.#outside)
    const decisive = JSON.stringify([decisiveIn(snapshot), ends])
    const isNew = isOtherMoment || decisive !== this.#decisive
    if (isNew) this.#causes = causesIn(snapshot, nodes)
    this.#decisive = decisive
    const latest = { at, moment: number, nodes, changes, by: this.#by, ...this.#causes, ...ends }
    const counters = movedCounters(before?.nodes ?? [], nodes)
    return { latest, isNew, ...(Object.keys(counters).length > 0 && { counters }) }
  }

  /** What the nodes of a snapshot hold, without adding it. */
  read({ nodes }: Snapshot): NodeHoldings[] {
    return nodes.map((node) => this.#holdings(node))
  }

  /** Steps have passed with the latest moment. */
  passed(steps: readonly string[]): void {
    this.#latest.label += `; passed: ${steps.join(', ')}`
  }

  timeline(): TimelinePush {
    return this.#moments.map(({ number, at, label }) => ({ moment: number, at, label }))
  }

  /** `make ipvs: TCP 10.96.0.1:443 rr added, and 35 more`. */
  #labelOf({ changes }: TimelinePoint): string {
    const [first, ...more] = changes
    const text =
      first && (first.text.length > LABEL ? `${first.text.slice(0, LABEL)}…` : first.text)
    const changed =
      first && `${text} ${first.change}${more.length === 0 ? '' : `, and ${more.length} more`}`
    return [this.#by, changed ?? 'the first read'].filter(Boolean).join(': ')
  }

  /** The nodes at a moment. Throws Error with a sentence when it is no longer kept. */
  moment(number: number): TimelinePoint {
    const found = this.#moments.find((moment) => moment.number === number)
    if (found) return found
    throw new Error(
      `Moment ${number} is no longer kept: the timeline keeps the last ${this.#moments.length}.`,
    )
  }

  /** Only once a snapshot was added. */
  get #latest(): TimelinePoint {
    return this.#moments.at(-1) as TimelinePoint
  }

  #holdings(node: NodeView): NodeHoldings {
    try {
      const connections = parseIpvsadmList(filesOf(node).get('ipvsadm-list') ?? '')
      const holdings = holdingsOf(node.name, stateOf(node), { mode: modeOf(node), connections })
      const size = [...holdingEntries(holdings)].length
      if (size <= MOST_ENTRIES) return holdings
      return {
        node: node.name,
        groups: [],
        trouble: `it holds ${size} entries, more than a page can show`,
      }
    } catch (error) {
      if (error instanceof Trouble) return { node: node.name, groups: [], trouble: error.message }
      throw error
    }
  }
}

/** Counters that differ from those of the previous read. */
function movedCounters(
  before: readonly NodeHoldings[],
  after: readonly NodeHoldings[],
): CountersPush {
  const old = countersOf(before)
  const moved: CountersPush = {}
  for (const [key, counter] of countersOf(after)) {
    const was = old.get(key)
    // A new entry has not moved: the moment shows it with its counter.
    if (was && !isDeepStrictEqual(was, counter))
      moved[key] = { ...counter, by: growth(was, counter) }
  }
  return moved
}

/** The counters by `NODE ID` of their entry. */
function countersOf(nodes: readonly NodeHoldings[]): Map<string, Counter> {
  const counters = new Map<string, Counter>()
  for (const holdings of nodes)
    for (const { id, packets, connections } of holdingEntries(holdings))
      if (packets !== undefined || connections)
        counters.set(`${holdings.node} ${id}`, { packets, connections })
  return counters
}

/**
 * By how much a counter grew. One of packets that is lower than before began again from zero;
 * connections also end.
 */
function growth(old: Counter, { packets, connections }: Counter): number {
  if (packets !== undefined)
    return packets < (old.packets ?? 0) ? packets : packets - (old.packets ?? 0)
  const total = ({ active, inactive } = { active: 0, inactive: 0 }) => active + inactive
  return total(connections) - total(old.connections)
}

/** The objects that decide what kube-proxy writes. */
const decisiveIn = ({ items }: Snapshot) =>
  items.filter(({ kind }) => kind === 'Service' || kind === 'EndpointSlice')

/**
 * Why the entries of each node exist. Every cause is listed once, because ids and repeated causes
 * would be most of a push.
 */
function causesIn(snapshot: Snapshot, nodes: readonly NodeHoldings[]): CauseTable {
  const lines = new Map<string, number>()
  const causes: Cause[] = []
  const lineOf = (cause: Cause): number => {
    const key = JSON.stringify(cause)
    const line = lines.get(key) ?? causes.push(cause) - 1
    lines.set(key, line)
    return line
  }
  const causedBy = nodes.map((holdings): [string, number[][]] => {
    const known = causesOn(snapshot, holdings)
    return [
      holdings.node,
      known ? [...holdingEntries(holdings)].map(({ id }) => (known.get(id) ?? []).map(lineOf)) : [],
    ]
  })
  return { causes, causedBy: Object.fromEntries(causedBy) }
}

/** The causes of one node; undefined if they can't be predicted. */
function causesOn(snapshot: Snapshot, holdings: NodeHoldings): Causes | undefined {
  const { mode, trouble } = holdings
  if (trouble !== undefined || (mode !== 'iptables' && mode !== 'ipvs' && mode !== 'nftables'))
    return undefined
  try {
    const node = snapshot.node(holdings.node)
    return causesOf(stateOf(node), objectsOf(snapshot), predictOptions(node, mode), holdings)
  } catch {
    // A version or a configuration that can't be predicted: the steps report it.
    return undefined
  }
}

/** The Services, and the possible origins and destinations of a packet. */
function endsIn(
  snapshot: Snapshot,
  outside: boolean,
): Pick<DataplanePush, 'services' | 'origins' | 'destinations'> {
  const { objects } = snapshot
  const { services, nodes } = objects instanceof Trouble ? { services: [], nodes: [] } : objects
  const place = (namespace: string | undefined, name: string) =>
    namespace === undefined || namespace === 'default' ? name : `${namespace}/${name}`
  const pods = snapshot.items.filter(
    ({ kind, spec, status }) => kind === 'Pod' && !spec?.hostNetwork && status?.podIP,
  )
  return {
    services: services.map(({ namespace, name }) => `${namespace}/${name}`),
    origins: [
      ...pods.map(({ metadata }) => `pod/${place(metadata.namespace, metadata.name)}`),
      'host',
      ...(outside ? ['outside'] : []),
    ],
    destinations: services.flatMap(({ namespace, name, clusterIPs, loadBalancerIngress, ports }) =>
      ports.flatMap(({ port, nodePort, protocol }) => {
        const suffix = protocol === 'TCP' ? '' : `/${protocol.toLowerCase()}`
        const on = nodePort === 0 ? [] : nodes.flatMap(({ internalIPs }) => internalIPs.slice(0, 1))
        const endpoints = [
          ...on.map((address) => printEndpoint(address, nodePort)),
          ...loadBalancerIngress.flatMap(({ ip }) => (ip ? printEndpoint(ip, port) : [])),
        ]
        const own = clusterIPs.length > 0 ? [`svc/${place(namespace, name)}:${port}`] : []
        return [...own, ...endpoints].map((to) => `${to}${suffix}`)
      }),
    ),
  }
}
