import { isDeepStrictEqual } from 'node:util'
import { evaluate } from '../../grading/evaluate.ts'
import { Trouble } from '../../grading/failure.ts'
import { modeOf, objectsOf, Snapshot } from '../../grading/snapshot.ts'
import type { EquivalentMutants } from './equivalent-mutants.ts'
import type { GoodCapture } from './good-captures.ts'
import { isLearnersRule, type Mutation } from './mutation.ts'
import { notesAlone, noticed } from './noticed.ts'

const REASON =
  'In userspace mode rules contain no Pod, Pod range, mark or scheduler: kube-proxy programs the same after this change, and the real requests of lab 7 test how it handles connections.'

/** Proves that a change of an object or a setting is harmless because kube-proxy in userspace mode programs every node as before. */
function sameProgram({ capture, snapshot }: GoodCapture, mutation: Mutation): string | undefined {
  if (mutation.node !== undefined) return undefined
  const before = programmed(snapshot)
  return before && isDeepStrictEqual(programmed(new Snapshot(mutation.apply(capture), snapshot)), before)
    ? REASON
    : undefined
}

/** What kube-proxy programs on each node; undefined in another mode, and if it can't be predicted. */
function programmed({ nodes }: Snapshot) {
  if (!nodes.every((node) => modeOf(node) === 'userspace')) return undefined
  try {
    return nodes.map((node) => evaluate(node, 'userspace').expected)
  } catch (error) {
    if (error instanceof Trouble) return undefined
    throw error
  }
}

interface HarmlessChange {
  /** Why no claim of the lab depends on it. */
  reason: string
  covers(mutation: Mutation, good: GoodCapture): boolean
}

/** Whether a Service, as mutations name it, has a ready endpoint. */
function hasEndpoints({ snapshot }: GoodCapture, service: string): boolean {
  const { endpointSlices } = objectsOf(snapshot)
  const own = endpointSlices.filter(({ namespace, serviceName }) => service === `Service ${namespace}/${serviceName}`)
  return own.some(({ endpoints }) => endpoints.length > 0)
}

const runs = ({ snapshot }: GoodCapture, mode: string) => snapshot.nodes.every((node) => modeOf(node) === mode)
const isLab = ({ spec }: GoodCapture, number: number) => spec.lab.number === number

/** Changes that no step detects, with the reason why none has to. Only consulted for mutations that no step catches. */
const HARMLESS_CHANGES: readonly HarmlessChange[] = [
  {
    reason:
      'The kubelet writes KUBE-FIREWALL and KUBE-MARK-DROP, too, so a difference there is not necessarily kube-proxy’s.',
    covers: ({ place, detail }) => /KUBE-FIREWALL|KUBE-MARK-DROP/.test(`${place} ${detail}`),
  },
  {
    reason:
      'The chains behind these jumps of the filter table judge different packets, so their order changes nothing; the presence of each jump is checked.',
    covers: ({ operator, place, detail }) =>
      operator === 'reorder rules' && /^filter (?:INPUT|FORWARD|OUTPUT)$/.test(place) && / -j KUBE-/.test(detail),
  },
  {
    reason:
      'Services are in this chain in the order of a Go map, which differs from sync to sync: each packet matches the rules of one of them.',
    covers: ({ operator, place }) => operator === 'reorder rules' && IN_MAP_ORDER.has(place),
  },
  {
    reason:
      'A policy belongs to the node (Docker itself sets FORWARD to DROP). If it stops a packet, the trace from the client’s Pod and the real requests on a live cluster show it.',
    covers: ({ operator }) => operator === 'alter policy',
  },
  {
    reason: 'iptables mode chooses at random and has no scheduler; the setting has no effect before IPVS mode.',
    covers: ({ operator }, good) => operator === 'alter scheduler' && runs(good, 'iptables'),
  },
  {
    reason:
      'The lab reads the mode of every kube-proxy from its /proxyMode. The mode in the ConfigMap is claimed by lab 2, step ipvs.',
    covers: ({ operator, place }, good) =>
      operator === 'alter mode' && place === 'ConfigMap kube-proxy' && !isLab(good, 2),
  },
  {
    reason: 'An additional virtual server with an address that lab 4 does not use gets none of its packets.',
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
      [3, 4, 5, 7].some((lab) => isLab(good, lab)) && (operator === 'take packets' || operator === 'take link down'),
  },
  {
    reason: 'In lab 4 the rules of one chain of mangle only count, or mark packets to different ports, in any order.',
    covers: ({ operator, place }, good) =>
      isLab(good, 4) && operator === 'reorder rules' && place.startsWith('mangle '),
  },
  {
    reason:
      'A duplicate of the learner’s rule stops the same packets, and the rule may be anywhere in its chain where the packet still reaches it: the steps of lab 5 trace the packet.',
    covers: ({ operator, detail }, good) =>
      isLab(good, 5) && (operator === 'duplicate rule' || operator === 'reorder rules') && isLearnersRule(detail),
  },
  {
    reason:
      'No packet from outside traverses OUTPUT. The order of foreign rules and kube-proxy’s there is claimed by lab 1, step chains.',
    covers: ({ operator, place }, good) => isLab(good, 3) && operator === 'reorder rules' && place === 'nat OUTPUT',
  },
  {
    reason:
      'Lab 7 has no node port. Its jump in userspace mode only matches packets to the node’s own addresses, above or below the leftovers of iptables mode.',
    covers: ({ operator, detail }, good) =>
      isLab(good, 7) &&
      runs(good, 'userspace') &&
      operator === 'reorder rules' &&
      / -j KUBE-NODEPORT-(?:CONTAINER|HOST)$/.test(detail),
  },
  {
    reason: 'Packets to a Service without endpoints are rejected, so no rule records its clients.',
    covers: ({ operator, place }, good) => operator === 'alter affinity' && !hasEndpoints(good, place),
  },
  {
    reason: 'A duplicate probe in its hook counts the same packets twice, and the older one is read.',
    covers: ({ operator, place }, good) =>
      (isLab(good, 1) || isLab(good, 4)) && operator === 'duplicate rule' && place.startsWith('mangle '),
  },
  {
    reason:
      'Of iptables mode, lab 2 claims what a Service costs: its entries in nat KUBE-SERVICES, and that no interface owns its address. The chains behind are claimed by lab 1.',
    covers: ({ place }, good) =>
      isLab(good, 2) && good.passing.includes('iptables-list') && place !== 'nat KUBE-SERVICES',
  },
  {
    reason:
      'Before the flush, the leftovers of iptables mode only have to exist; nothing jumps to them. Step flush, after this capture, claims their removal.',
    covers: ({ place, detail }, good) =>
      isLab(good, 2) &&
      !good.passing.includes('flush') &&
      (/^(?:nat|filter) KUBE-/.test(place) || /-j KUBE-|^:KUBE-/.test(detail)) &&
      !IPVS_CHAINS.has(place),
  },
]

/** In iptables mode; a finding about two rules of one Service, or about IPVS mode's fixed rules, is caught. */
const IN_MAP_ORDER = new Set([
  'nat KUBE-SERVICES',
  'nat KUBE-NODEPORTS',
  'filter KUBE-EXTERNAL-SERVICES',
  'nat KUBE-PORTALS-CONTAINER',
  'nat KUBE-PORTALS-HOST',
])

/** Chains of IPVS mode that steps other than flush are about. */
const IPVS_CHAINS = new Set([
  'nat KUBE-SERVICES',
  'nat KUBE-MARK-MASQ',
  'nat KUBE-POSTROUTING',
  'nat KUBE-NODE-PORT',
  'nat KUBE-LOAD-BALANCER',
  'nat PREROUTING',
  'nat OUTPUT',
  'nat POSTROUTING',
])

/** The reason why a lab need not detect a mutation; undefined if there is none, which is a fault of the grader. */
function reasonToIgnore(good: GoodCapture, mutation: Mutation): string | undefined {
  return HARMLESS_CHANGES.find(({ covers }) => covers(mutation, good))?.reason
}

/** The result of one mutation. */
export interface Trial {
  good: GoodCapture
  mutation: Mutation
  /**
   * `caught` by a step that names the place; `elsewhere`: a step fails, but none says where; `harmless`: no step fails, and a
   * reason is known; `missed`: no step fails and no reason is known.
   */
  end: 'caught' | 'elsewhere' | 'harmless' | 'missed'
  /** The steps that failed. */
  steps: string[]
  reason?: string
}

/** Judges a mutated capture by the steps that pass on the good one. */
export async function tryMutation(
  good: GoodCapture,
  mutation: Mutation,
  equivalentMutants: EquivalentMutants,
): Promise<Trial> {
  const { steps, about } = await noticed(good, mutation)
  if (about) return { good, mutation, end: 'caught', steps }
  if (steps.length > 0) return { good, mutation, end: 'elsewhere', steps }
  const reason =
    reasonToIgnore(good, mutation) ??
    sameProgram(good, mutation) ??
    (await notesAlone(good, mutation)) ??
    (await equivalentMutants.reason(good, mutation))
  return reason === undefined
    ? { good, mutation, end: 'missed', steps }
    : { good, mutation, end: 'harmless', steps, reason }
}
