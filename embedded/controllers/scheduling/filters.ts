import type { Node, Pod } from '../resources.ts'
import { hostPortsAreFree } from './host-ports.ts'
import { isWelcome, meetsAffinity, meetsAntiAffinity } from './inter-pod-affinity.ts'
import { matchesNode } from './node-affinity.ts'
import type { SchedulingView } from './snapshot.ts'
import { tolerates, untolerated } from './taints.ts'
import { spreadFault } from './topology-spread.ts'

/** Why a Pod can't go to a node. `lasting`: removing other Pods from the node would not help. */
export interface Refusal {
  reason: string
  lasting: boolean
}

type Filter = (pod: Pod, node: Node, snapshot: SchedulingView) => Refusal | undefined

const lasting = (reason: string): Refusal => ({ reason, lasting: true })
const passing = (reason: string): Refusal => ({ reason, lasting: false })

const unschedulableTaint = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' }
const defaultMaxPods = 110

// In the order of kube-scheduler's default profile; the words are its own.
const filters: readonly Filter[] = [
  (pod, node) =>
    node.spec.unschedulable && !pod.spec.tolerations?.some((toleration) => tolerates(toleration, unschedulableTaint))
      ? lasting('node(s) were unschedulable')
      : undefined,
  (pod, node) =>
    untolerated(node, pod.spec.tolerations ?? [], ['NoSchedule', 'NoExecute']).length > 0
      ? lasting('node(s) had untolerated taint(s)')
      : undefined,
  (pod, node) =>
    matchesNode(node, pod.spec) ? undefined : lasting("node(s) didn't match Pod's node affinity/selector"),
  (pod, node, { byNode }) =>
    hostPortsAreFree(pod, podsOn(node, byNode))
      ? undefined
      : passing("node(s) didn't have free ports for the requested pod ports"),
  (_pod, node, { byNode }) =>
    podsOn(node, byNode).length < Number(node.status?.allocatable?.pods ?? defaultMaxPods)
      ? undefined
      : passing('Too many pods'),
  (pod, node, snapshot) => {
    const fault = spreadFault(pod, node, snapshot)
    const words = "node(s) didn't match pod topology spread constraints"
    if (fault === 'label') return lasting(`${words} (missing required label)`)
    return fault && passing(words)
  },
  (pod, node, snapshot) =>
    meetsAffinity(pod, node, snapshot) ? undefined : lasting("node(s) didn't match pod affinity rules"),
  (pod, node, snapshot) =>
    meetsAntiAffinity(pod, node, snapshot) ? undefined : passing("node(s) didn't match pod anti-affinity rules"),
  (pod, node, snapshot) =>
    isWelcome(pod, node, snapshot) ? undefined : passing("node(s) didn't satisfy existing pods anti-affinity rules"),
]

function podsOn(node: Node, byNode: SchedulingView['byNode']): Pod[] {
  return (byNode.get(node.metadata.name) ?? []).map(({ pod }) => pod)
}

/** The first reason, in kube-scheduler's order of filters, why the Pod can't go to the node. */
export function refusal(pod: Pod, node: Node, snapshot: SchedulingView): Refusal | undefined {
  for (const filter of filters) {
    const found = filter(pod, node, snapshot)
    if (found) return found
  }
  return undefined
}

/**
 * kube-scheduler's message for a Pod that fits on no node: the nodes by reason, then that preemption does not help
 * (this cluster knows no priorities, so there never are victims).
 */
export function unschedulableMessage(refusals: readonly Refusal[]): string {
  if (refusals.length === 0) return 'no nodes available to schedule pods'
  const intro = `0/${refusals.length} nodes are available:`
  const preemption = refusals.map(({ lasting }) =>
    lasting ? 'Preemption is not helpful for scheduling' : 'No preemption victims found for incoming pod',
  )
  const reasons = histogram(refusals.map(({ reason }) => reason))
  return `${intro} ${reasons}. preemption: ${intro} ${histogram(preemption)}.`
}

/** `2 this, 1 that`, sorted as text. */
function histogram(reasons: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const reason of reasons) counts.set(reason, (counts.get(reason) ?? 0) + 1)
  return [...counts]
    .map(([reason, count]) => `${count} ${reason}`)
    .sort()
    .join(', ')
}
