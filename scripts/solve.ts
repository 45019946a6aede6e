// Plays the reference solution:  solve.ts 2 [--step ID]
import { parseArgs } from 'node:util'
import { runningCluster } from '../cluster/select.ts'
import { LabBench } from '../course/lab-bench.ts'
import { endIncidentsOfOthers } from '../course/lab-solution.ts'
import { openLab, playSteps } from '../course/play-lab.ts'
import { judgeRound } from '../grading/judge.ts'
import { findStep, labNumber, mustRunHere, readLab } from '../grading/lab-definition.ts'
import { ExitCode, main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

await main(async () => {
  const { values, positionals } = parseArgs({
    options: { step: { type: 'string' } },
    allowPositionals: true,
  })
  const lab = readLab(labNumber(positionals[0]))
  const steps = values.step === undefined ? lab.steps : [findStep(lab, values.step)]
  const cluster = await runningCluster()
  await mustRunHere(cluster, lab)
  const bench = await LabBench.open(
    cluster,
    createProgress(),
    `play the solution of lab ${lab.number}`,
  )
  await endIncidentsOfOthers(lab, bench)
  const open = await openLab(lab, bench)
  // Observers note the state before the first step, as `make reset-N` has them do: some steps
  // compare with it.
  await judgeRound(open.spec, await open.source.snapshot(), open.source.live, [])
  const outcomes = await playSteps(open, steps)
  if (outcomes.some(({ verdict }) => verdict === 'could not check')) return ExitCode.trouble
  const passed = outcomes.filter(
    ({ verdict }) => verdict === 'passed' || verdict === 'not applicable',
  )
  return passed.length === steps.length ? ExitCode.passed : ExitCode.notYet
})
