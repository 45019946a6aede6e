import type { V1Taint, V1Toleration } from '@kubernetes/client-node'
import type { Node, Stored } from '../resources.ts'

export type Taint = Stored<V1Taint>
export type Toleration = Stored<V1Toleration>

/** Whether a toleration covers a taint: an empty key with `Exists` covers all, an empty effect covers every effect. */
export function tolerates(toleration: Toleration, taint: Taint): boolean {
  if (toleration.effect && toleration.effect !== taint.effect) return false
  if (toleration.key && toleration.key !== taint.key) return false
  if (toleration.operator === 'Exists') return true
  return Boolean(toleration.key) && (toleration.value ?? '') === (taint.value ?? '')
}

/**
 * The taints a node has, and the one that Kubernetes' node lifecycle controller would give it while its kubelet does
 * not report it ready (TaintNodesByCondition). A node whose kubelet never reported anything counts as it is.
 */
export function taintsOf(node: Node): Taint[] {
  const taints = node.spec.taints ?? []
  const ready = node.status?.conditions?.find(({ type }) => type === 'Ready')
  if (!ready || ready.status === 'True') return taints
  return [...taints, { key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' }]
}

/** The node's taints of the given effects that no toleration covers. */
export function untolerated(
  node: Node,
  tolerations: readonly Toleration[],
  effects: readonly Taint['effect'][],
): Taint[] {
  return taintsOf(node).filter(
    (taint) => effects.includes(taint.effect) && !tolerations.some((toleration) => tolerates(toleration, taint)),
  )
}
