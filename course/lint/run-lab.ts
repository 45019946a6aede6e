import type { LabSpec } from '../../grading/check-context.ts'
import { judgeRound } from '../../grading/judge.ts'
import { openCluster } from '../../grading/source.ts'
import { projectRoot } from '../../host/layout.ts'
import { timeoutScale } from '../../host/wait.ts'
import { type LabBench, loadSolution } from '../lab-bench.ts'
import { resetLab } from '../lab-reset.ts'
import { readLabText } from '../lab-text.ts'
import { playSteps } from '../play-lab.ts'
import type { Complaint } from './complaint.ts'
import { FenceShell, learnerEnvironment } from './fence-shell.ts'

/**
 * Tries a lab on a running cluster: from its start every step fails, the reference solution makes every step pass, and what
 * the text says to type works from the first line to the last. Stops a part at its first complaint, for the rest follows.
 */
export async function runLab(spec: LabSpec, bench: LabBench): Promise<Complaint[]> {
  await resetLab(spec.lab, bench)
  const unsolved = await failsUnsolved(spec, bench)
  const solved = await passesSolved(spec, bench)
  await resetLab(spec.lab, bench)
  return [...unsolved, ...solved, ...(await typesText(spec, bench))]
}

async function failsUnsolved(spec: LabSpec, { cluster }: LabBench): Promise<Complaint[]> {
  const source = await openCluster(cluster, { keepMoments: false })
  const snapshot = await source.snapshot()
  const complaints: Complaint[] = []
  for (const { id } of spec.lab.steps) {
    // Alone: a step must not fail only because another one does.
    const [outcome] = await judgeRound(spec, snapshot, source.live, [id])
    // What can't be asked on this cluster earns nothing, unsolved as solved.
    if (outcome?.verdict === 'failed' || outcome?.verdict === 'not applicable') continue
    const said = `${outcome?.verdict}${outcome?.reason ? ` (${outcome.reason})` : ''}`
    complaints.push({
      file: `checks/${spec.lab.folder}.check.ts`,
      text: `step "${id}" unsolved is not failed: ${said}.`,
    })
  }
  return complaints
}

async function passesSolved(spec: LabSpec, bench: LabBench): Promise<Complaint[]> {
  const source = await openCluster(bench.cluster, { keepMoments: false })
  const outcomes = await playSteps(spec, await loadSolution(spec.lab.folder), bench, source, spec.lab.steps)
  const open = spec.lab.steps.filter(({ id }) => {
    const verdict = outcomes.find((outcome) => outcome.id === id)?.verdict
    return verdict !== 'passed' && verdict !== 'not applicable'
  })
  const file = `labs/${spec.lab.folder}/solution.ts`
  return open.slice(0, 1).map(({ id }) => ({ file, text: `step "${id}" does not pass when it is solved.` }))
}

async function typesText({ lab }: LabSpec, { cluster }: LabBench): Promise<Complaint[]> {
  const shell = new FenceShell(projectRoot, learnerEnvironment(cluster.name))
  try {
    for (const fence of readLabText(lab.folder).fences) {
      console.log(`\n${fence.commands}`)
      const { exitCode, output } = await shell.type({
        ...fence,
        timeout: fence.timeout * timeoutScale(),
      })
      if (exitCode === 0) continue
      const last = output.split('\n').at(-1) ?? ''
      return [{ file: `labs/${lab.folder}/README.md:${fence.line}`, text: `what is typed here fails: ${last}` }]
    }
    return []
  } finally {
    shell.end()
  }
}
