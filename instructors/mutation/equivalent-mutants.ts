import { targetOf } from '../../dataplane/rule-text.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { mutationsOf } from './all-mutations.ts'
import { busiestNode, type GoodCapture, nodesToBreak } from './good-captures.ts'
import { isLearnersRule } from './learners-rules.ts'
import type { Mutation } from './mutation.ts'
import { noticed } from './noticed.ts'
import { packetEnds } from './packet-ends.ts'

/** Labs about what learners build beside kube-proxy: what kube-proxy must have is the matter of others. */
const BESIDE_KUBE_PROXY = new Set([4])

const UNCHANGED = 'Every packet that the lab follows at this moment ends where it did.'
const TABLES = new Set(['nat', 'filter', 'mangle'])
const LEFT_BEHIND =
  'In IPVS mode nothing asks for what iptables mode left, and every packet that the lab follows ends where it did. That all of it is gone is claimed by lab 2, step flush, and at the end of lab 5.'

const LEFT_BEHIND_IN_USERSPACE =
  'In userspace mode nothing asks for what iptables mode left, and every packet that the lab follows ends where it did. What iptables mode must hold is claimed at the end of lab 7, step back.'

const reasonFor = (twin: number) =>
  `${UNCHANGED} That nothing of kube-proxy’s is missing, altered or stale is claimed at the end of lab ${twin}, where the same change is caught.`

/**
 * Proves that changes of a moment's capture, or of a lab that is not about kube-proxy, are equivalent: the packets that the lab
 * follows end where they did, and a change of the same kind is tried at the end of this lab or, in the same mode, of another, and
 * caught there. Each kind is tried once.
 */
export class EquivalentMutants {
  readonly #ends: readonly GoodCapture[]
  readonly #caught = new Map<string, Promise<boolean>>()
  readonly #packetEnds = new Map<string, string>()
  readonly #mutations = new Map<GoodCapture, Mutation[]>()

  constructor(goods: readonly GoodCapture[]) {
    this.#ends = goods.filter(({ isEnd }) => isEnd)
  }

  /** Why no step has to detect this change on this capture; undefined if that cannot be proved. */
  async reason(good: GoodCapture, mutation: Mutation): Promise<string | undefined> {
    const { end, spec } = good
    if (!end && !good.isPart && !BESIDE_KUBE_PROXY.has(spec.lab.number)) return undefined
    if (isByHand(mutation)) return undefined
    const node = mutation.node ?? busiestNode(good)
    if (this.#endsOn(node, good) !== packetEnds(mutation.apply(good.capture), node, spec.lab.number)) return undefined
    if (isLeftBehind(good, node, mutation)) return modeOf(good) === 'ipvs' ? LEFT_BEHIND : LEFT_BEHIND_IN_USERSPACE
    const others = this.#ends.filter((other) => other !== good && other !== end && modeOf(other) === modeOf(good))
    const candidates = end && modeOf(end) === modeOf(good) ? [end, ...others] : others
    for (const other of candidates) if (await this.#isCaughtAt(other, mutation)) return reasonFor(other.spec.lab.number)
    return undefined
  }

  #endsOn(node: string, good: GoodCapture): string {
    const key = `${node} of ${good.name}`
    const known = this.#packetEnds.get(key) ?? packetEnds(good.capture, node, good.spec.lab.number)
    this.#packetEnds.set(key, known)
    return known
  }

  #isCaughtAt(end: GoodCapture, mutation: Mutation): Promise<boolean> {
    const kind = kindOf(mutation)
    const key = `${end.name}: ${kind}`
    const known = this.#caught.get(key) ?? this.#tryKind(end, kind)
    this.#caught.set(key, known)
    return known
  }

  async #tryKind(end: GoodCapture, kind: string): Promise<boolean> {
    const all = this.#mutations.get(end) ?? [...mutationsOf(end.capture, nodesToBreak(end))]
    this.#mutations.set(end, all)
    for (const mutation of all) if (kindOf(mutation) === kind && (await noticed(end, mutation)).about) return true
    return false
  }
}

/** What a learner made is what a lab looks at. */
const isByHand = ({ place, detail }: Mutation) =>
  isLearnersRule(detail) || /^virtual server (?:\d+$|192\.0\.2\.)|^address /.test(place)

/** What iptables mode left: a chain that the mode that runs has no use for, or a jump that it does not make. */
function isLeftBehind(good: GoodCapture, node: string, { place, detail }: Mutation): boolean {
  const [tableName = '', chain = ''] = place.split(' ')
  const mode = modeOf(good)
  if ((mode !== 'ipvs' && mode !== 'userspace') || !TABLES.has(tableName)) return false
  const table = evaluate(new Snapshot(good.capture).node(node), mode).expected.iptables.get(tableName)
  if (chain.startsWith('KUBE-')) return !table?.has(chain)
  const own = table?.get(chain)?.rules ?? []
  // Where a mode writes nothing, every change concerns leftovers of another mode.
  if (mode === 'userspace' && own.length === 0) return true
  const spec = detail.replace(`-A ${chain} `, '')
  const isJump = targetOf(spec)?.startsWith('KUBE-') ?? false
  return isJump && !own.some((rule) => rule.spec === spec)
}

const modeOf = ({ capture }: GoodCapture) => new Snapshot(capture).nodes.at(-1)?.mode

/** What is done to what: names that differ from one cluster to the next are left out. KUBE-XLB- is called KUBE-EXT- since 1.24. */
function kindOf({ operator, place }: Mutation): string {
  const sort = place
    .replace(/-[A-Z0-9]{16}\b/, '-…')
    .replace('KUBE-XLB-', 'KUBE-EXT-')
    .replace(/^(virtual server|Service|EndpointSlice) .*/, '$1')
  return `${operator}, ${sort}`
}
