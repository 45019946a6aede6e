import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { changeCluster } from '../cluster/cluster-lock.ts'
import { evidenceFolder } from '../grading/evidence.ts'
import { loadSpec } from '../grading/grader.ts'
import { judgeRound } from '../grading/judge.ts'
import type { LabDefinition } from '../grading/lab-definition.ts'
import { openCluster } from '../grading/source.ts'
import { projectRoot } from '../host/layout.ts'
import { type LabBench, loadSolution } from './lab-bench.ts'
import { leaveOthers } from './leave-others.ts'

/**
 * Takes away what other labs have left, brings a lab to its starting state and lets its observers look once, so that what
 * "before" means is on record. Evidence and hints of earlier tries are forgotten.
 */
export function resetLab(lab: LabDefinition, bench: LabBench): Promise<void> {
  return changeCluster(bench.cluster, `resets lab ${lab.number} on`, bench.progress, () => resetAlone(lab, bench))
}

async function resetAlone(lab: LabDefinition, bench: LabBench): Promise<void> {
  const { reset } = await loadSolution(lab.folder)
  await leaveOthers(lab.number, bench)
  await reset(bench)
  rmSync(join(projectRoot, evidenceFolder(lab.number, bench.cluster.name)), { recursive: true, force: true })
  const source = await openCluster(bench.cluster)
  await judgeRound(await loadSpec(lab), await source.snapshot(), source.live, [])
}
