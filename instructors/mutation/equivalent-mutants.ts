import {
  loadBalancerService,
  nodePortService,
} from '../../checks/03-from-outside/exposed-service.ts'
import { VIPS } from '../../checks/04-lvs/lvs-nodes.ts'
import { AGENT_PORT, clusterIPs } from '../../checks/05-exposure/node-agent.ts'
import { groupBy } from '../../dataplane/collections.ts'
import { targetOf } from '../../dataplane/rule.ts'
import { CircleError, PacketError, tracePacket } from '../../dataplane/trace.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { WEB_NAMESPACE } from '../../grading/expect-object.ts'
import { Failure } from '../../grading/failure.ts'
import { EXAMPLE_CLIENT } from '../../grading/requests.ts'
import { modeOf, objectsOf, Snapshot, stateOf } from '../../grading/snapshot.ts'
import { busiestNode, type GoodCapture, nodesToBreak, noticed } from './good-captures.ts'
import { isLearnersRule, type Mutation } from './mutation.ts'
import { mutationsOf } from './mutations.ts'

type Destinations = Generator<readonly [address: string, port: number]>

const isLearners = (namespace: string, name: string | undefined) =>
  namespace === WEB_NAMESPACE && name !== 'kubernetes'

/** The ClusterIPs of the learner's own Services. */
function* toServices(snapshot: Snapshot): Destinations {
  for (const { namespace, name, clusterIPs, ports } of objectsOf(snapshot).services)
    if (isLearners(namespace, name))
      for (const ip of clusterIPs.filter((one) => /^\d+\./.test(one)))
        for (const { port } of ports) yield [ip, port]
}

/** Their endpoints, directly. */
function* toPods(snapshot: Snapshot): Destinations {
  for (const { namespace, serviceName, endpoints, ports } of objectsOf(snapshot).endpointSlices)
    if (isLearners(namespace, serviceName))
      for (const ip of endpoints.flatMap(({ addresses }) => addresses))
        for (const { port } of ports) if (port !== undefined) yield [ip, port]
}

/** The port of the metrics listener on every ClusterIP. */
function* toMetricsListeners(snapshot: Snapshot): Destinations {
  for (const ip of clusterIPs(snapshot)) yield [ip, AGENT_PORT]
}

/** The node port of the Service that lab 3 exposes, and its load balancer, if they exist. */
function* toExposed(snapshot: Snapshot, node: string): Destinations {
  const own = objectsOf(snapshot).nodes.find(({ name }) => name === node)?.internalIPs[0] ?? ''
  const exposed = unlessMissing(() => nodePortService(snapshot))
  if (exposed) yield [own, exposed.nodePort]
  const balanced = unlessMissing(() => loadBalancerService(snapshot))
  if (balanced) yield [balanced.address, balanced.port]
  if (balanced) yield [own, balanced.nodePort]
}

function unlessMissing<Found>(find: () => Found): Found | undefined {
  try {
    return find()
  } catch (error) {
    if (error instanceof Failure) return undefined
    throw error
  }
}

/** The virtual servers that the learner made. */
function* toServersByHand(snapshot: Snapshot, node: string): Destinations {
  for (const { address, port } of stateOf(snapshot.node(node)).virtualServers)
    if (VIPS.includes(address)) yield [address, port]
}

/** Lab 7 sends real requests in its other modes. */
function* inUserspaceMode(snapshot: Snapshot, node: string): Destinations {
  if (modeOf(snapshot.node(node)) === 'userspace') yield* toServices(snapshot)
}

/** The packets that each lab follows: those of the Pod "client", or from outside. */
const FOLLOWED: Record<
  number,
  { from: 'pod' | 'external'; to: ((snapshot: Snapshot, node: string) => Destinations)[] }
> = {
  1: { from: 'pod', to: [toServices] },
  2: { from: 'pod', to: [toServices] },
  3: { from: 'external', to: [toExposed] },
  4: { from: 'external', to: [toServersByHand] },
  5: { from: 'pod', to: [toServices, toPods, toMetricsListeners] },
  7: { from: 'pod', to: [inUserspaceMode] },
}

/**
 * Where the rules of one node send every packet that a lab follows at its moments, as text for
 * comparison.
 */
function packetEnds(snapshot: Snapshot, node: string, lab: number): string {
  const { from, to } = FOLLOWED[lab] ?? { from: 'pod', to: [] }
  const client = snapshot.find('Pod', WEB_NAMESPACE, 'client')
  const source =
    from === 'external'
      ? EXAMPLE_CLIENT
      : client?.spec?.nodeName === node
        ? client.status?.podIP
        : undefined
  if (source === undefined) return ''
  const state = stateOf(snapshot.node(node))
  const ends = to
    .flatMap((destinations) => [...destinations(snapshot, node)])
    .map(([destination, port]) => {
      const packet = { from, source, destination, port, protocol: 'tcp' } as const
      try {
        const { verdict, outcomes, lost } = tracePacket(state, packet, { matchingOnly: true })
        const ends = outcomes.map(({ to, probability }) => [to, probability.toFixed(6)])
        return JSON.stringify([
          packet,
          verdict,
          ends.sort(),
          lost.map((loss) => [loss.verdict, loss.probability]),
        ])
      } catch (error) {
        if (!(error instanceof PacketError || error instanceof CircleError)) throw error
        return JSON.stringify([packet, error.message])
      }
    })
  return ends.join('\n')
}

/**
 * Labs about objects that learners create beside kube-proxy's; kube-proxy's own are claimed by
 * other labs.
 */
const BESIDE_KUBE_PROXY = new Set([4])

const UNCHANGED = 'Every packet that the lab follows at this moment ends at the same place.'
const TABLES = new Set(['nat', 'filter', 'mangle'])
const UNUSED =
  'no rule uses the leftovers of iptables mode, and every packet that the lab follows ends at the same place.'
/** By mode: why leftovers of iptables mode may change. */
const LEFT_BEHIND: Readonly<Record<string, string>> = {
  ipvs: `In IPVS mode ${UNUSED} Their removal is claimed by lab 2, step flush, and at the end of lab 5.`,
  userspace: `In userspace mode ${UNUSED} The rules of iptables mode are claimed at the end of lab 7, step back.`,
}

const reasonFor = (lab: number) =>
  `${UNCHANGED} That nothing of kube-proxy’s is missing, altered or stale is claimed at the end of lab ${lab}, where the same change is caught.`

/** The end of a lab, where each kind of mutation is tried once. */
class LabEnd {
  readonly good: GoodCapture
  #mutations: ReadonlyMap<string, Mutation[]> | undefined
  readonly #catches = new Map<string, boolean>()

  constructor(good: GoodCapture) {
    this.good = good
  }

  /** Whether a step notices a mutation of this kind, and names its place. */
  async catches(kind: string): Promise<boolean> {
    const known = this.#catches.get(kind) ?? (await this.#tries(kind))
    this.#catches.set(kind, known)
    return known
  }

  async #tries(kind: string): Promise<boolean> {
    this.#mutations ??= groupBy(
      [...mutationsOf(this.good.capture, nodesToBreak(this.good))],
      kindOf,
    )
    for (const mutation of this.#mutations.get(kind) ?? [])
      if ((await noticed(this.good, mutation)).about) return true
    return false
  }
}

/**
 * Proves that changes of a moment's capture, or of a lab that is not about kube-proxy, are
 * equivalent: the packets that the lab follows end at the same place, and a change of the same kind
 * at the end of this lab or, in the same mode, of another one is caught there. Each kind is tried
 * once.
 */
export class EquivalentMutants {
  readonly #ends: readonly LabEnd[]

  constructor(goods: readonly GoodCapture[]) {
    this.#ends = goods.filter(({ isEnd }) => isEnd).map((good) => new LabEnd(good))
  }

  /** Why no step has to detect this change on this capture; undefined if that cannot be proved. */
  async reason(good: GoodCapture, mutation: Mutation): Promise<string | undefined> {
    const { end, spec } = good
    const lab = spec.lab.number
    if (!end && !good.isPart && !BESIDE_KUBE_PROXY.has(lab)) return undefined
    if (isByHand(mutation)) return undefined
    const node = mutation.node ?? busiestNode(good)
    const mutated = new Snapshot(mutation.apply(good.capture), good.snapshot)
    if (packetEnds(mutated, node, lab) !== packetEnds(good.snapshot, node, lab)) return undefined
    const mode = modeRecorded(good)
    if (isLeftBehind(good, node, mutation)) return LEFT_BEHIND[mode]
    const kind = kindOf(mutation)
    // Its own lab's end first.
    for (const other of this.#ends.toSorted(
      (a, b) => Number(b.good === end) - Number(a.good === end),
    ))
      if (other.good !== good && modeRecorded(other.good) === mode && (await other.catches(kind)))
        return reasonFor(other.good.spec.lab.number)
    return undefined
  }
}

/**
 * What a learner made is what a lab looks at: in lab 4 the virtual servers of marks, and those on
 * ports from 8000 on.
 */
const isByHand = ({ place, detail }: Mutation) =>
  isLearnersRule(detail) || /^virtual server (?:\d+$|192\.0\.2\.\d+:8\d{3}$)|^address /.test(place)

/**
 * Whether the change concerns a chain that the running mode does not use, or a jump that it does
 * not create.
 */
function isLeftBehind(good: GoodCapture, node: string, { place, detail }: Mutation): boolean {
  const [tableName = '', chain = ''] = place.split(' ')
  const mode = modeRecorded(good)
  if ((mode !== 'ipvs' && mode !== 'userspace') || !TABLES.has(tableName)) return false
  const table = evaluate(good.snapshot.node(node), mode).expected.iptables.get(tableName)
  if (chain.startsWith('KUBE-')) return !table?.has(chain)
  const own = table?.get(chain)?.rules ?? []
  // If the mode writes nothing there, every change concerns leftovers of another mode.
  if (mode === 'userspace' && own.length === 0) return true
  const spec = detail.replace(`-A ${chain} `, '')
  const isJump = targetOf(spec)?.startsWith('KUBE-') ?? false
  return isJump && !own.some((rule) => rule.spec === spec)
}

const modeRecorded = ({ snapshot }: GoodCapture) => snapshot.nodes.map(modeOf).at(-1) ?? ''

/**
 * The kind of a mutation: operator and place, without names that differ between clusters. KUBE-XLB-
 * is called KUBE-EXT- since 1.24.
 */
function kindOf({ operator, place }: Mutation): string {
  const sort = place
    .replace(/-[A-Z0-9]{16}\b/, '-…')
    .replace('KUBE-XLB-', 'KUBE-EXT-')
    .replace(/^(virtual server|Service|EndpointSlice) .*/, '$1')
  return `${operator}, ${sort}`
}
