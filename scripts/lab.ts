// Leads through a lab:  lab.ts 2.  With a terminal it waits for the learner, without one it plays the reference solution.
import { chalk } from 'zx'
import type { LabSpec } from '../checks/check-context.ts'
import { gradeWith, loadSpec } from '../checks/grader.ts'
import { type LabDefinition, readLab } from '../checks/lab-definition.ts'
import { learnerReport } from '../checks/learner-report.ts'
import { notesName } from '../checks/notebook.ts'
import type { Source } from '../checks/report-schema.ts'
import { openCluster } from '../checks/source.ts'
import type { Cluster } from '../cluster/driver.ts'
import { selectCluster } from '../cluster/select.ts'
import { labNumber } from './grading.ts'
import { LabBench, loadSolution } from './lab-bench.ts'
import { resetLab } from './lab-reset.ts'
import { LabSession } from './lab-session.ts'
import { main } from './main.ts'
import { playActs } from './play-lab.ts'
import { createProgress } from './progress.ts'

await main(async () => {
  const lab = readLab(labNumber(process.argv[2]))
  const began = performance.now()
  const cluster = await selectCluster()
  const progress = createProgress()
  await cluster.up(progress)
  const spec = await loadSpec(lab)
  const bench = await LabBench.open(cluster, progress)
  const interactive = process.stdin.isTTY === true && process.stdout.isTTY === true && !process.env.CI
  if (interactive) return lead(spec, bench)
  const exitCode = await play(spec, bench)
  console.log(`From \`make lab-${lab.number}\` to here: ${((performance.now() - began) / 1000).toFixed(1)} s.`)
  return exitCode
})

/** Interactive: goes on where the cluster stands, or begins with the lab's starting state. */
async function lead(spec: LabSpec, bench: LabBench): Promise<number> {
  const { lab } = spec
  if (await wasBegun(lab, bench))
    bench.progress.note(`Lab ${lab.number} goes on where the cluster stands; make reset-${lab.number} begins anew.`)
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
async function play(spec: LabSpec, bench: LabBench): Promise<number> {
  const { lab } = spec
  const solution = await loadSolution(lab.folder)
  console.log(chalk.bold(`Lab ${lab.number}: ${lab.title}`))
  console.log('There is no terminal to ask you, so the reference solution is played and graded step by step.')
  await resetLab(lab, bench)
  const source = await openCluster(bench.cluster)
  const { standing } = await playActs(spec, solution, bench, source, lab.steps)
  console.log('\nEvery step once more, on one snapshot of the cluster as it stands now:\n')
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
