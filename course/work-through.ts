import { chalk } from 'zx/core'
import type { Cluster } from '../cluster/driver.ts'
import { gradeWith, loadSpec } from '../grading/grader.ts'
import type { LabDefinition } from '../grading/lab-definition.ts'
import { notesName } from '../grading/lab-notes.ts'
import { learnerReport } from '../grading/learner-report.ts'
import type { Source } from '../grading/report-schema.ts'
import { openCluster } from '../grading/source.ts'
import type { Progress } from '../host/progress.ts'
import { LabBench, loadSolution } from './lab-bench.ts'
import { resetLab } from './lab-reset.ts'
import { LabSession } from './lab-session.ts'
import { playActs } from './play-lab.ts'

/** Interactive: continues from the cluster's state, or begins with the lab's starting state. */
export async function lead(lab: LabDefinition, cluster: Cluster, progress: Progress): Promise<number> {
  const [spec, bench] = await Promise.all([
    loadSpec(lab),
    LabBench.open(cluster, progress, `work through lab ${lab.number}`),
  ])
  if (await wasBegun(lab, bench))
    bench.progress.note(
      `Lab ${lab.number} continues from the cluster's current state; make reset-${lab.number} starts over.`,
    )
  else await resetLab(lab, bench)
  const [solution, source] = await Promise.all([loadSolution(lab.folder), openCluster(bench.cluster)])
  return new LabSession(spec, solution, bench, source).run()
}

/** The lab's notes in the cluster say that it was begun. */
async function wasBegun(lab: LabDefinition, { client }: LabBench): Promise<boolean> {
  const fieldSelector = `metadata.name=${notesName(lab.number)}`
  const { items } = await client.core.listNamespacedConfigMap({ namespace: 'default', fieldSelector })
  return items.length > 0
}

/** Without a terminal: from the start to the end by the reference solution, graded after each step. */
export async function play(lab: LabDefinition, cluster: Cluster, progress: Progress): Promise<number> {
  const [spec, bench] = await Promise.all([
    loadSpec(lab),
    LabBench.open(cluster, progress, `work through lab ${lab.number}`),
  ])
  const solution = await loadSolution(lab.folder)
  console.log(chalk.bold(`Lab ${lab.number}: ${lab.title}`))
  console.log('There is no terminal to ask you, so the reference solution is played and graded step by step.')
  await resetLab(lab, bench)
  const source = await openCluster(bench.cluster)
  const { standing } = await playActs(spec, solution, bench, source, lab.steps)
  console.log('\nEvery step once more, on one snapshot of the cluster as it is now:\n')
  const report = await gradeWith(spec, { lab: lab.number, source: clusterSource(bench.cluster) }, () => ({
    ...source,
    standing,
  }))
  process.stdout.write(learnerReport(report))
  return report.exitCode
}

function clusterSource({ driver, name }: Cluster): Source {
  return { kind: 'cluster', driver, name }
}
