import type { Labels } from '../../../dataplane/label-selector.ts'
import type { Api } from '../../apiserver/api.ts'
import { isTerminal } from '../pod-condition.ts'
import type { Namespace, Node, Pod } from '../resources.ts'

/** What one decision of the scheduler is based on. */
export interface SchedulingView {
  nodes: readonly Node[]
  /** Pods that take their place on a node: bound and not ended. */
  placed: readonly PlacedPod[]
  byNode: ReadonlyMap<string, readonly PlacedPod[]>
  namespaceLabels(namespace: string): Labels
}

export interface PlacedPod {
  pod: Pod
  node: Node
}

/** The cluster as it is now. Pods of nodes that no longer exist take no place. */
export function readSchedulingView(api: Api): SchedulingView {
  const nodes = api.list<Node>('nodes')
  const named = new Map(nodes.map((node) => [node.metadata.name, node]))
  const byNode = new Map<string, PlacedPod[]>(nodes.map((node) => [node.metadata.name, []]))
  const placed: PlacedPod[] = []
  for (const pod of api.list<Pod>('pods')) {
    const node = named.get(pod.spec.nodeName ?? '')
    if (!node || isTerminal(pod)) continue
    placed.push({ pod, node })
    byNode.get(node.metadata.name)?.push({ pod, node })
  }
  const namespaceLabels = (name: string) => api.get<Namespace>('namespaces', undefined, name)?.metadata.labels ?? {}
  return { nodes, placed, byNode, namespaceLabels }
}
