import type { ClusterObjects } from '../objects.ts'
import { findCircumstances } from './circumstances.ts'
import {
  changesOnNode,
  comparedNodes,
  type MigrationSettings,
  type MigrationSide,
  type SharedAnswers,
} from './compare-nodes.ts'
import type { MigrationReport, ServiceChange } from './report-shape.ts'
import { serviceChanges } from './service-changes.ts'

/**
 * What a change of kube-proxy's mode (or version) does to the Services of a cluster: probes from
 * Pods, nodes and outside to every address of every Service port are traced through both
 * predictions and compared.
 * @throws VersionError for a version that is not modelled, PredictError for a mode that a version
 * does not have
 */
export function planMigration(
  objects: ClusterObjects,
  from: MigrationSide,
  to: MigrationSide,
  settings: MigrationSettings,
): Omit<MigrationReport, 'leftOut'> {
  const { config, nodes } = settings
  const chosen = objects.nodes.filter(({ name }) => nodes?.includes(name) ?? true)
  const { compared, probes, changes } = compareSides(objects, from, to, settings)
  const meant = { ...objects, nodes: chosen }
  const circumstances = findCircumstances({ objects: meant, from, to, config, compared })
  const breaks =
    changes.filter(({ effect }) => effect === 'stops').length +
    circumstances.filter(({ severity }) => severity === 'breaks').length
  return {
    from,
    to,
    nodes: chosen.map(({ name }) => name),
    probes,
    breaks,
    changes,
    circumstances,
  }
}

/**
 * The changes of `planMigration` alone, without the circumstances, which take more than half of its
 * time.
 */
export const planServiceChanges = (
  ...compared: Parameters<typeof planMigration>
): readonly ServiceChange[] => compareSides(...compared).changes

function compareSides(
  objects: ClusterObjects,
  from: MigrationSide,
  to: MigrationSide,
  settings: MigrationSettings,
) {
  const compared = comparedNodes(objects, from, to, settings)
  const shared: SharedAnswers = new Map()
  const results = compared.map((one) => changesOnNode(objects, one, shared))
  const found = results.flatMap(({ changes }) => changes)
  const probes = results.reduce((sum, { probes }) => sum + probes, 0)
  return { compared, probes, changes: serviceChanges(found, from, to) }
}
