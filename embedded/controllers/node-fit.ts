import type {
  V1NodeSelectorRequirement,
  V1NodeSelectorTerm,
  V1PodSpec,
  V1Taint,
  V1Toleration,
} from '@kubernetes/client-node'
import { hasLabels } from '../../dataplane/label-selector.ts'
import type { Node, Stored } from './resources.ts'

type Requirement = Stored<V1NodeSelectorRequirement>
type Term = Stored<V1NodeSelectorTerm>

function meets(value: string | undefined, { operator, values = [] }: Requirement): boolean {
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value)
    case 'NotIn':
      return value === undefined || !values.includes(value)
    case 'Exists':
      return value !== undefined
    case 'DoesNotExist':
      return value === undefined
    case 'Gt':
      return Number(value) > Number(values[0])
    case 'Lt':
      return Number(value) < Number(values[0])
    default:
      return false
  }
}

/** Whether a node meets all requirements of a term; a term without any matches no node. */
function matchesTerm(node: Node, { matchExpressions = [], matchFields = [] }: Term): boolean {
  if (matchExpressions.length === 0 && matchFields.length === 0) return false
  return (
    matchExpressions.every((requirement) => meets(node.metadata.labels?.[requirement.key], requirement)) &&
    matchFields.every((requirement) => requirement.key === 'metadata.name' && meets(node.metadata.name, requirement))
  )
}

/** Whether a node satisfies a Pod's nodeSelector and its required node affinity (any one of the terms). */
export function matchesNode(node: Node, spec: Stored<V1PodSpec>): boolean {
  if (!hasLabels(node.metadata.labels, spec.nodeSelector ?? {})) return false
  const required = spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution
  return required === undefined || required.nodeSelectorTerms.some((term) => matchesTerm(node, term))
}

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
 * not report it ready (TaintNodesByCondition). A node whose kubelet has never reported gets no additional taint.
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
