import type { KubeObject } from '../apiserver/api.ts'
import { type ControllerContext, remove } from './context.ts'
import { claim, controllerReference } from './ownership.ts'
import { canonicalJson, templateHash } from './pod-control.ts'
import {
  type ControllerRevision,
  type DaemonSet,
  isReady,
  isTerminating,
  type Node,
  type Pod,
  type PodTemplate,
} from './resources.ts'
import { countOf } from './rollout.ts'
import { matchesNode, type Toleration, untolerated } from './scheduling/node-fit.ts'

/** The label of a daemon Pod with the hash of its template. */
export const revisionHashLabel = 'controller-revision-hash'

/**
 * The hash of the DaemonSet's current template. Creates its ControllerRevision, or gives an existing one the newest number
 * if the template was used before.
 */
export function currentRevision({ api }: ControllerContext, daemonSet: DaemonSet): string {
  const { namespace, name } = daemonSet.metadata
  // A strategic merge patch, which `kubectl rollout undo` applies.
  const data = { spec: { template: { $patch: 'replace', ...daemonSet.spec.template } } }
  const revisions = claim<ControllerRevision>(api, daemonSet, 'controllerrevisions')
  const newest = Math.max(0, ...revisions.map(({ revision }) => revision))
  const known = revisions.find((revision) => canonicalJson(revision.data) === canonicalJson(data))
  if (known) {
    if (known.revision < newest) {
      api.patch('controllerrevisions', namespace, known.metadata.name, { revision: newest + 1 })
    }
    return known.metadata.labels?.[revisionHashLabel] ?? ''
  }
  const hash = templateHash(daemonSet.spec.template)
  const { metadata } = daemonSet.spec.template
  api.create('controllerrevisions', namespace, {
    apiVersion: 'apps/v1',
    kind: 'ControllerRevision',
    metadata: {
      name: `${name}-${hash}`,
      ...(namespace && { namespace }),
      labels: { ...metadata?.labels, [revisionHashLabel]: hash },
      ...(daemonSet.metadata.annotations && { annotations: daemonSet.metadata.annotations }),
      ownerReferences: [controllerReference(daemonSet)],
    },
    data,
    revision: newest + 1,
  })
  return hash
}

/** Deletes the oldest revisions beyond `revisionHistoryLimit` that no Pod uses. */
export function cleanUpRevisions({ api }: ControllerContext, daemonSet: DaemonSet, pods: readonly Pod[]): void {
  const hashOf = ({ metadata }: KubeObject) => metadata.labels?.[revisionHashLabel]
  const used = new Set(pods.map(hashOf))
  const revisions = claim<ControllerRevision>(api, daemonSet, 'controllerrevisions')
  const byAge = revisions.sort((left, right) => left.revision - right.revision)
  const unused = byAge.slice(0, -1).filter((revision) => !used.has(hashOf(revision)))
  const surplus = unused.length - (daemonSet.spec.revisionHistoryLimit ?? 10)
  for (const { metadata } of unused.slice(0, Math.max(0, surplus))) remove(api, 'controllerrevisions', metadata)
}

/**
 * The Pods of an earlier template to delete now, as pkg/controller/daemon/update.go chooses: first those that are not
 * ready, then ready ones while no more than maxUnavailable (default 1; percentages round up) of the `wanted` nodes lack a
 * ready Pod.
 */
export function replacements(
  { spec: { updateStrategy } }: DaemonSet,
  wanted: readonly string[],
  podsByNode: ReadonlyMap<string, readonly Pod[]>,
  hash: string,
): Pod[] {
  const limit = countOf(updateStrategy?.rollingUpdate?.maxUnavailable ?? 1, wanted.length, Math.ceil)
  const only = wanted.flatMap((node) => {
    const live = (podsByNode.get(node) ?? []).filter((pod) => !isTerminating(pod))
    return live.length === 1 ? live : []
  })
  const isOld = ({ metadata }: Pod) => metadata.labels?.[revisionHashLabel] !== hash
  const broken = only.filter((pod) => !isReady(pod) && isOld(pod))
  const unavailable = wanted.length - only.filter(isReady).length - broken.length
  const ready = only.filter((pod) => isReady(pod) && isOld(pod))
  return [...broken, ...ready.slice(0, Math.max(0, limit - unavailable))]
}

// The nodes on which a DaemonSet needs a Pod, and the node affinity of its Pods (pkg/controller/daemon and its util
// package).

/** The tolerations that every Pod of a DaemonSet gets, so that it runs on nodes with these taints. */
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

/** `run`: the node needs a Pod; `stay`: an existing Pod may stay, but none would be started; `leave`: neither. */
export function placement({ spec: { template } }: DaemonSet, node: Node): 'run' | 'stay' | 'leave' {
  const { spec } = template
  if (!spec || (spec.nodeName && spec.nodeName !== node.metadata.name) || !matchesNode(node, spec)) return 'leave'
  const tolerations = tolerationsOf(template)
  if (untolerated(node, tolerations, ['NoExecute']).length > 0) return 'leave'
  return untolerated(node, tolerations, ['NoSchedule']).length > 0 ? 'stay' : 'run'
}

/**
 * The DaemonSet's template for one node: required node affinity with the node's name (instead of the template's, which the
 * node satisfies) binds the Pod to this node only.
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

/** The node that a daemon Pod runs on or is created for. */
export function targetNode({ spec }: Pod): string | undefined {
  if (spec.nodeName) return spec.nodeName
  const required = spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution
  for (const { matchFields = [] } of required?.nodeSelectorTerms ?? []) {
    const byName = matchFields.find(({ key, operator }) => key === 'metadata.name' && operator === 'In')
    if (byName) return byName.values?.[0]
  }
  return undefined
}
