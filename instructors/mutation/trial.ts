import { isDeepStrictEqual } from 'node:util'
import { isChainOfModeOnly } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { Trouble } from '../../grading/failure.ts'
import { notesName } from '../../grading/lab-notes.ts'
import { modeOf, objectsOf, Snapshot } from '../../grading/snapshot.ts'
import type { EquivalentMutants } from './equivalent-mutants.ts'
import { type GoodCapture, noticed } from './good-captures.ts'
import { isLearnersRule, type Mutation } from './mutation.ts'

interface HarmlessChange {
  /** Why no claim of the lab depends on it. */
  reason: string
  covers(mutation: Mutation, good: GoodCapture): boolean
}

/** Whether a Service, as mutations name it, has a ready endpoint. */
function hasEndpoints({ snapshot }: GoodCapture, service: string): boolean {
  const { endpointSlices } = objectsOf(snapshot)
  const own = endpointSlices.filter(
    ({ namespace, serviceName }) => service === `Service ${namespace}/${serviceName}`,
  )
  return own.some(({ endpoints }) => endpoints.length > 0)
}

const runs = ({ snapshot }: GoodCapture, mode: string) =>
  snapshot.nodes.every((node) => modeOf(node) === mode)
const isLab = ({ spec }: GoodCapture, number: number) => spec.lab.number === number

/**
 * Whether kube-proxy in userspace mode programs every node as before the change; false if that
 * can't be predicted.
 */
function isProgrammedAlike({ capture, snapshot }: GoodCapture, mutation: Mutation): boolean {
  const programmed = ({ nodes }: Snapshot) =>
    nodes.map((node) => evaluate(node, 'userspace').expected)
  try {
    return isDeepStrictEqual(
      programmed(new Snapshot(mutation.apply(capture), snapshot)),
      programmed(snapshot),
    )
  } catch (error) {
    if (error instanceof Trouble) return false
    throw error
  }
}

/**
 * Changes that no step detects, with the reason why none has to. Only consulted for mutations that
 * no step catches.
 */
const HARMLESS_CHANGES: readonly HarmlessChange[] = [
  {
    reason:
      'The kubelet writes KUBE-FIREWALL and KUBE-MARK-DROP, too, so a difference there is not necessarily kube-proxy’s.',
    covers: ({ place, detail }) => /KUBE-FIREWALL|KUBE-MARK-DROP/.test(`${place} ${detail}`),
  },
  {
    reason:
      'The order of these rules changes nothing: a packet matches one of them, or the chains behind their jumps judge different packets. Services are listed in the order of a Go map, which differs from sync to sync. The presence of each rule is checked.',
    covers: ({ operator, place, detail }, good) =>
      operator === 'reorder rules' &&
      (IN_MAP_ORDER.has(place) ||
        (/^filter (?:INPUT|FORWARD|OUTPUT)$/.test(place) && / -j KUBE-/.test(detail)) ||
        // No packet from outside, which lab 3 is about, traverses OUTPUT.
        (isLab(good, 3) && place === 'nat OUTPUT') ||
        // Lab 7 has no node port.
        (isLab(good, 7) && / -j KUBE-NODEPORT-(?:CONTAINER|HOST)$/.test(detail))),
  },
  {
    reason:
      'A policy belongs to the node (Docker itself sets FORWARD to DROP). If it stops a packet, the trace from the client’s Pod and the real requests on a live cluster show it.',
    covers: ({ operator }) => operator === 'alter policy',
  },
  {
    reason:
      'iptables mode chooses at random and has no scheduler; the setting has no effect before IPVS mode.',
    covers: ({ operator }, good) => operator === 'alter scheduler' && runs(good, 'iptables'),
  },
  {
    reason:
      'The lab reads the mode of every kube-proxy from its /proxyMode. The mode in the ConfigMap is claimed by lab 2, step ipvs.',
    covers: ({ operator, place }, good) =>
      operator === 'alter mode' && place === 'ConfigMap kube-proxy' && !isLab(good, 2),
  },
  {
    reason:
      'kube-proxy of nftables mode leaves KUBE-MARK-MASQ when it removes the rules of iptables mode, and nothing jumps to it then.',
    covers: ({ place }, good) => place === 'nat KUBE-MARK-MASQ' && runs(good, 'nftables'),
  },
  {
    reason:
      'An additional virtual server with an address that lab 4 does not use gets none of its packets.',
    covers: ({ operator }, good) => isLab(good, 4) && operator === 'add virtual server',
  },
  {
    reason:
      'The excludeCIDRs setting is claimed by lab 4, step excluded, which is judged on the capture of its own moment; the same change is caught there.',
    covers: ({ operator }, good) =>
      isLab(good, 4) && operator === 'lose excludeCIDRs' && !good.passing.includes('excluded'),
  },
  {
    reason:
      'These labs prove by real requests that packets arrive, which a capture cannot repeat. Foreign rules that drop packets to Services, and disconnected Pods, are claimed by labs 1 and 2.',
    covers: ({ operator }, good) =>
      [3, 4, 5, 7].some((lab) => isLab(good, lab)) &&
      (operator === 'take packets' || operator === 'take link down'),
  },
  {
    reason:
      'A duplicate of a learner’s rule stops, marks or counts the same packets. It may be anywhere in its chain where the packet still reaches it, which the steps of lab 5 trace.',
    covers: ({ operator, detail }, good) =>
      [1, 4, 5].some((lab) => isLab(good, lab)) &&
      (operator === 'duplicate rule' || operator === 'reorder rules') &&
      isLearnersRule(detail),
  },
  {
    reason:
      'The rules by which a learner of lab 2 counts stop nothing, and its questions are answered from the path of the packet, not from their counters.',
    covers: ({ place, detail }, good) =>
      isLab(good, 2) && place.startsWith('mangle ') && isLearnersRule(detail),
  },
  {
    reason:
      'In userspace mode rules contain no Pod, Pod range, mark or scheduler: kube-proxy programs the same after this change, and the real requests of lab 7 test how it handles connections.',
    covers: (mutation, good) =>
      mutation.node === undefined && runs(good, 'userspace') && isProgrammedAlike(good, mutation),
  },
  {
    reason:
      'The passing steps judge only the lab’s notes: they also pass on a cluster without node state and without other objects.',
    covers: ({ place }, { spec, judgesOnlyNotes }) =>
      judgesOnlyNotes && place !== `ConfigMap ${notesName(spec.lab.number)}`,
  },
  {
    reason: 'Packets to a Service without endpoints are rejected, so no rule records its clients.',
    covers: ({ operator, place }, good) =>
      operator === 'alter affinity' && !hasEndpoints(good, place),
  },
  {
    reason:
      'Two modes are side by side: entries that one has left on a node that runs the other are claimed by lab 9 only once they must be gone, in step clean.',
    covers: ({ place }, good) =>
      isLab(good, 9) && !good.passing.includes('clean') && isOfOneMode(place),
  },
  {
    reason:
      'Of iptables mode, lab 2 claims what a Service costs: its entries in nat KUBE-SERVICES, and that no interface owns its address. The chains behind are claimed by lab 1.',
    covers: ({ place }, good) =>
      isLab(good, 2) && good.passing.includes('iptables-list') && place !== 'nat KUBE-SERVICES',
  },
]

/** True for a place that only iptables or only IPVS mode writes. */
function isOfOneMode(place: string): boolean {
  if (/^(?:set |virtual server |link kube-ipvs0)/.test(place)) return true
  const [table = '', chain = ''] = place.split(' ')
  return isChainOfModeOnly('ipvs', table, chain) || isChainOfModeOnly('iptables', table, chain)
}

/**
 * In iptables mode; a finding about two rules of one Service, or about IPVS mode's fixed rules, is
 * caught.
 */
const IN_MAP_ORDER = new Set([
  'nat KUBE-SERVICES',
  'nat KUBE-NODEPORTS',
  'filter KUBE-EXTERNAL-SERVICES',
  'nat KUBE-PORTALS-CONTAINER',
  'nat KUBE-PORTALS-HOST',
])

/** The result of one mutation. */
export interface Trial {
  good: GoodCapture
  mutation: Mutation
  /**
   * `caught` by a step that names the place; `elsewhere`: a step fails, but none says where;
   * `harmless`: no step fails, and a reason is known; `missed`: no step fails and no reason is
   * known.
   */
  end: 'caught' | 'elsewhere' | 'harmless' | 'missed'
  /** The steps that failed. */
  steps: string[]
  reason?: string | undefined
}

/** Judges a mutated capture by the steps that pass on the good one. */
export async function tryMutation(
  good: GoodCapture,
  mutation: Mutation,
  equivalentMutants: EquivalentMutants,
): Promise<Trial> {
  const { steps, about } = await noticed(good, mutation)
  if (about) return { good, mutation, steps, end: 'caught' }
  if (steps.length > 0) return { good, mutation, steps, end: 'elsewhere' }
  const reason =
    HARMLESS_CHANGES.find(({ covers }) => covers(mutation, good))?.reason ??
    (await equivalentMutants.reason(good, mutation))
  return { good, mutation, steps, end: reason === undefined ? 'missed' : 'harmless', reason }
}
