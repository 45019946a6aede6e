// Records a lab as it is solved and handed in: record-solved.ts 2 [--file lab-2-embedded] →
// data/solved/lab-2-embedded.labgrade The embedded cluster NAME (default: record-solved) is stopped
// afterwards unless it already ran.

import { mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { selectCluster } from '../cluster/select.ts'
import { LabBench } from '../course/lab-bench.ts'
import { resetLab } from '../course/lab-solution.ts'
import { openLab, playSteps } from '../course/play-lab.ts'
import { labNumber, readLab } from '../grading/lab-definition.ts'
import { learnerReport, scoreLine } from '../grading/learner-report.ts'
import { cacheFolder, projectRoot } from '../host/layout.ts'
import { ExitCode, main, Refusal } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'
import { handIn } from '../instructors/submission/hand-in.ts'

/** The learner of the recordings. */
const LEARNER = 'alice'

await main(async () => {
  const { values, positionals } = parseArgs({
    options: { file: { type: 'string' } },
    allowPositionals: true,
  })
  const lab = readLab(labNumber(positionals[0]))
  const stem = values.file || `lab-${lab.number}-embedded`
  if (!/^lab-\d+-embedded(?:-[a-z]+)?$/.test(stem))
    throw new Refusal(
      `"${stem}" is not the name of a recording: write it as in FILE=lab-8-embedded-ipvs.`,
    )
  process.env.CLUSTER_OWNER ??= `${process.pid}`
  const cluster = await selectCluster('embedded', process.env.NAME || 'record-solved', { lab })
  const ranBefore = await cluster.running()
  const progress = createProgress()
  await cluster.up(progress)
  const folder = mkdtempSync(join(cacheFolder, 'record-'))
  try {
    const bench = await LabBench.open(cluster, progress)
    await resetLab(lab, bench)
    await playSteps(await openLab(lab, bench), lab.steps)
    const { file, report } = await handIn(cluster, lab, LEARNER, folder)
    process.stdout.write(learnerReport(report))
    const open = report.steps.filter(
      ({ verdict }) => verdict !== 'passed' && verdict !== 'not applicable',
    )
    if (open.length > 0) {
      console.log(`Nothing was recorded: ${open.map(({ id }) => id).join(', ')} did not pass.`)
      return ExitCode.notYet
    }
    renameSync(file, join(projectRoot, 'data/solved', `${stem}.labgrade`))
    console.log(`Written: data/solved/${stem}.labgrade (${scoreLine(report)}).`)
    return ExitCode.passed
  } finally {
    rmSync(folder, { recursive: true })
    if (!ranBefore) await cluster.down(progress)
  }
})
