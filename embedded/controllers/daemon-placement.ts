// Which nodes a DaemonSet wants a Pod on, and how its Pods are tied to them (pkg/controller/daemon and its util package).
import type { DaemonSet, Node, Pod, PodTemplate } from './resources.ts'
import { matchesNode } from './scheduling/node-affinity.ts'
import { type Toleration, untolerated } from './scheduling/taints.ts'

/** The tolerations that every Pod of a DaemonSet gets: it runs where other Pods would be kept away or evicted. */
function daemonTolerations(template: PodTemplate): Toleration[] {
  const tolerate = (name: string, effect: string) => ({ key: `node.kubernetes.io/${name}`, operator: 'Exists', effect })
  return [
    tolerate('not-ready', 'NoExecute'),
    tolerate('unreachable', 'NoExecute'),
    tolerate('disk-pressure', 'NoSchedule'),
    tolerate('memory-pressure', 'NoSchedule'),
    tolerate('pid-pressure', 'NoSchedule'),
    tolerate('unschedulable', 'NoSchedule'),
    ...(template.spec?.hostNetwork ? [tolerate('network-unavailable', 'NoSchedule')] : []),
  ]
}

function tolerationsOf(template: PodTemplate): Toleration[] {
  const own = template.spec?.tolerations ?? []
  const isOwn = (toleration: Toleration) =>
    own.some(
      ({ key, effect, operator }) => key === toleration.key && effect === toleration.effect && operator === 'Exists',
    )
  return [...own, ...daemonTolerations(template).filter((toleration) => !isOwn(toleration))]
}

/** `run`: a Pod belongs there; `stay`: one that is there may stay though none would be started; `leave`: neither. */
export function placement({ spec: { template } }: DaemonSet, node: Node): 'run' | 'stay' | 'leave' {
  const { spec } = template
  if (!spec || (spec.nodeName && spec.nodeName !== node.metadata.name) || !matchesNode(node, spec)) return 'leave'
  const tolerations = tolerationsOf(template)
  if (untolerated(node, tolerations, ['NoExecute']).length > 0) return 'leave'
  return untolerated(node, tolerations, ['NoSchedule']).length > 0 ? 'stay' : 'run'
}

/**
 * The DaemonSet's template for one node: required node affinity by the node's name (in place of the template's own, which
 * the node has met already) lets the scheduler bind the Pod there and nowhere else.
 */
export function templateForNode(template: PodTemplate, node: string, labels: Record<string, string>): PodTemplate {
  const { spec } = template
  if (!spec) return template
  const byName = { matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }
  const nodeAffinity = {
    ...spec.affinity?.nodeAffinity,
    requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [byName] },
  }
  return {
    ...template,
    metadata: { ...template.metadata, labels: { ...template.metadata?.labels, ...labels } },
    spec: { ...spec, affinity: { ...spec.affinity, nodeAffinity }, tolerations: tolerationsOf(template) },
  }
}

/** The node a daemon Pod runs on or is meant for. */
export function targetNode({ spec }: Pod): string | undefined {
  if (spec.nodeName) return spec.nodeName
  const required = spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution
  for (const { matchFields = [] } of required?.nodeSelectorTerms ?? []) {
    const byName = matchFields.find(({ key, operator }) => key === 'metadata.name' && operator === 'In')
    if (byName) return byName.values?.[0]
  }
  return undefined
}
