import { hasReason } from '../apiserver/status-error.ts'
import { canonicalJson } from './canonical-json.ts'
import type { ControllerContext } from './context.ts'
import { claim, controllerReference } from './ownership.ts'
import type { ControllerRevision, DaemonSet, Pod, PodTemplate } from './resources.ts'
import { templateHash } from './template-hash.ts'

/** The label by which a daemon Pod says which template made it. */
export const revisionHashLabel = 'controller-revision-hash'

/** What a revision keeps of the DaemonSet: a strategic merge patch that `kubectl rollout undo` applies. */
function revisionData({ spec: { template } }: DaemonSet): { spec: { template: PodTemplate & { $patch: string } } } {
  return { spec: { template: { $patch: 'replace', ...template } } }
}

/**
 * The hash of the DaemonSet's present template, with its ControllerRevision made, or brought back to the newest number when
 * the template is an earlier one again.
 */
export function currentRevision({ api }: ControllerContext, daemonSet: DaemonSet): string {
  const { namespace, name } = daemonSet.metadata
  const data = revisionData(daemonSet)
  const revisions = claim<ControllerRevision>(api, daemonSet, 'controllerrevisions')
  const newest = Math.max(0, ...revisions.map(({ revision }) => revision))
  const known = revisions.find((revision) => canonicalJson(revision.data) === canonicalJson(data))
  if (known) {
    if (known.revision < newest) {
      api.patch('controllerrevisions', namespace, known.metadata.name, { revision: newest + 1 })
    }
    return known.metadata.labels?.[revisionHashLabel] ?? ''
  }
  const hash = templateHash(daemonSet.spec.template, daemonSet.status?.collisionCount)
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

/** Deletes the oldest revisions beyond `revisionHistoryLimit` that no Pod was made from. */
export function cleanUpRevisions({ api }: ControllerContext, daemonSet: DaemonSet, pods: readonly Pod[]): void {
  const live = new Set(pods.map(({ metadata }) => metadata.labels?.[revisionHashLabel]))
  const revisions = claim<ControllerRevision>(api, daemonSet, 'controllerrevisions').sort(
    (left, right) => left.revision - right.revision,
  )
  const unused = revisions.slice(0, -1).filter(({ metadata }) => !live.has(metadata.labels?.[revisionHashLabel]))
  const surplus = unused.length - (daemonSet.spec.revisionHistoryLimit ?? 10)
  for (const { metadata } of unused.slice(0, Math.max(0, surplus))) {
    try {
      api.delete('controllerrevisions', metadata.namespace, metadata.name)
    } catch (error) {
      if (!hasReason(error, 'NotFound')) throw error
    }
  }
}
