import type {
  V1NodeSelectorRequirement,
  V1NodeSelectorTerm,
  V1PodSpec,
  V1Taint,
  V1Toleration,
} from '@kubernetes/client-node'
import { hasLabels } from '../../../dataplane/label-selector.ts'
import type { Api } from '../../apiserver/api.ts'
import { isTerminal, type Node, type Pod, type Stored } from '../resources.ts'

/** The input of one scheduling decision. */
export interface SchedulingView {
  nodes: readonly Node[]
  /** The Pods that use a node, by its name: bound and not ended. */
  byNode: ReadonlyMap<string, readonly Pod[]>
}

/** Reads the current state of the cluster, without Pods of nodes that no longer exist. */
export function readSchedulingView(api: Api): SchedulingView {
  const nodes = api.list<Node>('nodes')
  const byNode = new Map<string, Pod[]>(nodes.map((node) => [node.metadata.name, []]))
  for (const pod of api.list<Pod>('pods')) if (!isTerminal(pod)) byNode.get(pod.spec.nodeName ?? '')?.push(pod)
  return { nodes, byNode }
}

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
export function matchesTerm(node: Node, { matchExpressions = [], matchFields = [] }: Term): boolean {
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

interface HostPort {
  protocol: string
  address: string
  port: number
}

const anyAddress = '0.0.0.0'

function hostPorts({ spec }: Pod): HostPort[] {
  // Sidecars (init containers that keep running) hold their ports too.
  const sidecars = (spec.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always')
  return [...spec.containers, ...sidecars].flatMap(({ ports = [] }) =>
    ports.flatMap(({ hostPort, hostIP, protocol }) =>
      hostPort ? [{ port: hostPort, address: hostIP || anyAddress, protocol: protocol ?? 'TCP' }] : [],
    ),
  )
}

/** Whether none of the Pod's host ports is taken by `others` on the same node; 0.0.0.0 takes a port on every address. */
export function hostPortsAreFree(pod: Pod, others: readonly Pod[]): boolean {
  const taken = others.flatMap(hostPorts)
  return hostPorts(pod).every((wanted) =>
    taken.every(
      (held) =>
        held.port !== wanted.port ||
        held.protocol !== wanted.protocol ||
        (held.address !== wanted.address && held.address !== anyAddress && wanted.address !== anyAddress),
    ),
  )
}
