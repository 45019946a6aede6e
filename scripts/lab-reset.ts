import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { INCIDENT_LAB } from '../checks/08-incidents/stage.ts'
import { evidenceFolder } from '../checks/evidence.ts'
import { loadSpec } from '../checks/grader.ts'
import { judgeRound } from '../checks/judge.ts'
import type { LabDefinition } from '../checks/lab-definition.ts'
import { openCluster } from '../checks/source.ts'
import { projectRoot } from '../cluster/layout.ts'
import { leaveIncident } from './incident/heal.ts'
import { type LabBench, loadSolution } from './lab-bench.ts'

/**
 * Heals what an unfinished incident broke, brings a lab to its starting state and lets its observers look once, so that what
 * "before" means is on record. Evidence and hints of earlier tries are forgotten.
 */
export async function resetLab(lab: LabDefinition, bench: LabBench): Promise<void> {
  const { reset } = await loadSolution(lab.folder)
  bench.seen = undefined
  // An incident that is still open would break any other lab's steps.
  if (lab.number !== INCIDENT_LAB) await leaveIncident(bench)
  await reset(bench)
  rmSync(join(projectRoot, evidenceFolder(lab.number, bench.cluster.name)), { recursive: true, force: true })
  const source = await openCluster(bench.cluster)
  await judgeRound(await loadSpec(lab), bench.seen ?? (await source.snapshot()), source.live, [])
}
