// Plays the reference solution:  solve.ts 2 [--step ID]
import { parseArgs } from 'node:util'
import { loadSpec } from '../checks/grader.ts'
import { findStep, readLab } from '../checks/lab-definition.ts'
import { openCluster } from '../checks/source.ts'
import { selectCluster } from '../cluster/select.ts'
import { LabBench, loadSolution } from './lab-bench.ts'
import { labNumber } from './lab-number.ts'
import { ExitCode, main, UserError } from './main.ts'
import { playSteps } from './play-lab.ts'
import { createProgress } from './progress.ts'

await main(async () => {
  const { values, positionals } = parseArgs({ options: { step: { type: 'string' } }, allowPositionals: true })
  const lab = readLab(labNumber(positionals[0]))
  const steps = values.step === undefined ? lab.steps : [findStep(lab, values.step)]
  const cluster = await selectCluster()
  if (!(await cluster.running())) throw new UserError(`The cluster "${cluster.name}" is not up: run \`make up\`.`)
  const bench = await LabBench.open(cluster, createProgress(), `play the solution of lab ${lab.number}`)
  const [spec, solution, source] = await Promise.all([loadSpec(lab), loadSolution(lab.folder), openCluster(cluster)])
  const outcomes = await playSteps(spec, solution, bench, source, steps)
  if (outcomes.some(({ verdict }) => verdict === 'could not check')) return ExitCode.trouble
  const passed = outcomes.filter(({ verdict }) => verdict === 'passed' || verdict === 'not applicable')
  return passed.length === steps.length ? ExitCode.passed : ExitCode.notYet
})
