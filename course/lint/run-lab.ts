import { chalk } from 'zx/core'
import { selectCluster } from '../../cluster/select.ts'
import type { LabSpec } from '../../grading/check-context.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judgeRound } from '../../grading/judge.ts'
import { type LabDefinition, readLab } from '../../grading/lab-definition.ts'
import { openCluster } from '../../grading/live-cluster.ts'
import { projectRoot } from '../../host/layout.ts'
import { plainText } from '../../host/plain-text.ts'
import { createProgress } from '../../host/progress.ts'
import { shellWord } from '../../host/shell-word.ts'
import { timeoutScale } from '../../host/wait.ts'
import { LabBench } from '../lab-bench.ts'
import { type LabSolution, loadSolution, resetLab } from '../lab-solution.ts'
import { type AskedQuote, type Fence, partsInOrder, readLabText } from '../lab-text.ts'
import { openLab, playSteps } from '../play-lab.ts'
import type { LintMessage } from './course-files.ts'
import { FenceShell, learnerEnvironment } from './fence-shell.ts'
import {
  hasUnthinkingLimits,
  MOST_POINTS,
  type Player,
  playUnthinking,
  unthinkingLine,
} from './thoughtless.ts'

/**
 * The commands of a fence, with `A='…'` replaced by the answers that the reference solution
 * computes.
 */
function withAnswers(commands: string, { steps }: LabSolution): string {
  const answers = Object.values(steps).flatMap((step) =>
    step.commands.filter((line) => line.startsWith('make answer ')),
  )
  return commands
    .split('\n')
    .map((line) => {
      const prompt = /^(make answer .*?\bA=)'…'$/.exec(line)?.[1]
      return (prompt && answers.find((answer) => answer.startsWith(prompt))) ?? line
    })
    .join('\n')
}

/**
 * The command that answers at a blockquote, as the reference solution types it; of a recall
 * question, an accepted answer.
 */
function answerAt(
  { kind, step = '', command }: AskedQuote,
  { steps }: LabSolution,
  { recall = [] }: LabDefinition,
): string {
  if (kind === 'recall') {
    const { accepts = [] } =
      recall.find(({ id }) => new RegExp(`\\bQ=${id}\\b`).test(command)) ?? {}
    return command.replace(/\bA=.*$/, `A=${shellWord(accepts[0] ?? '')}`)
  }
  const answers = (steps[step]?.commands ?? []).filter((line) => line.startsWith('make answer '))
  return (kind === 'predict' ? answers[0] : answers.at(-1)) ?? command
}

const ANSWER_SECONDS = 60

const SOLVE_SECONDS = 300

/**
 * Everything that a reader of a lab's text types: the fences, and at each blockquote the reference
 * solution's answer. A step that the text leaves to the learner is solved by `make solve-N` after
 * its last fence.
 */
export function typedParts(lab: LabDefinition, solution: LabSolution): Fence[] {
  const isUnguided = (step = '') => solution.steps[step]?.unguided === true
  const parts = partsInOrder(readLabText(lab.folder))
  return parts.flatMap((part, index): Fence[] => {
    const { step, line } = part
    const solve = `make solve-${lab.number} STEP=${step}`
    const isLast = isUnguided(step) && parts[index + 1]?.step !== step
    const after = isLast ? [{ commands: solve, timeout: SOLVE_SECONDS, line }] : []
    if ('commands' in part)
      return [{ ...part, commands: withAnswers(part.commands, solution) }, ...after]
    if (isUnguided(step)) return after
    return [{ commands: answerAt(part, solution, lab), timeout: ANSWER_SECONDS, line }]
  })
}

/** Runs labs on a separate cluster, which is stopped afterwards unless it already ran. */
export async function runLabs(numbers: readonly number[]): Promise<LintMessage[]> {
  const cluster = await selectCluster('embedded', process.env.NAME || 'lint-labs')
  const ranBefore = await cluster.running()
  const progress = createProgress()
  await cluster.up(progress)
  try {
    const complaints: LintMessage[] = []
    for (const number of numbers) {
      const lab = readLab(number)
      console.log(chalk.bold(`\nLab ${number}: ${lab.title}`))
      complaints.push(
        ...(await runLab(await loadSpec(lab), await LabBench.open(cluster, progress))),
      )
    }
    console.log()
    return complaints
  } finally {
    if (!ranBefore) await cluster.down(progress)
  }
}

/**
 * Runs a lab on a running cluster: at its start every step fails, the reference solution makes
 * every step pass, the commands in the text work from the first line to the last, and without
 * answers they earn few points. Each part stops at its first complaint.
 */
async function runLab(spec: LabSpec, bench: LabBench): Promise<LintMessage[]> {
  await resetLab(spec.lab, bench)
  const unsolved = await failsUnsolved(spec, bench)
  const solved = await passesSolved(spec, bench)
  await resetLab(spec.lab, bench)
  const typed = await typesText(spec, bench)
  const unthinking: LintMessage[] = []
  if (hasUnthinkingLimits(spec.lab.number))
    for (const player of ['thoughtless', 'make-only'] as const)
      unthinking.push(...(await earnsLittle(player, spec, bench)))
  return [...unsolved, ...solved, ...typed, ...unthinking]
}

/** Complains if a player who answers nothing gets more points than a lab may give for it. */
async function earnsLittle(player: Player, spec: LabSpec, bench: LabBench): Promise<LintMessage[]> {
  const played = await playUnthinking(player, spec, bench)
  const line = unthinkingLine(player, played)
  console.log(`\n${line}`)
  const file = `labs/${spec.lab.folder}/lab.yaml`
  return played.score <= MOST_POINTS[player] ? [] : [{ file, text: line }]
}

async function failsUnsolved(spec: LabSpec, { cluster }: LabBench): Promise<LintMessage[]> {
  const source = await openCluster(cluster, { keepMoments: false })
  const snapshot = await source.snapshot()
  const complaints: LintMessage[] = []
  for (const { id } of spec.lab.steps) {
    // Judged separately: a step must not fail only because another one does.
    const [outcome] = await judgeRound(spec, snapshot, source.live, [id])
    // A step that is not applicable on this cluster earns no points in either case.
    if (
      outcome?.verdict === 'failed' ||
      outcome?.verdict === 'not applicable' ||
      outcome?.unanswered
    )
      continue
    const result = `${outcome?.verdict}${outcome?.reason ? ` (${outcome.reason})` : ''}`
    complaints.push({
      file: `checks/${spec.lab.folder}.check.ts`,
      text: `step "${id}" passes or is undecided before it is solved: ${result}.`,
    })
  }
  return complaints
}

async function passesSolved(spec: LabSpec, bench: LabBench): Promise<LintMessage[]> {
  const outcomes = await playSteps(
    await openLab(spec.lab, bench, { keepMoments: false }),
    spec.lab.steps,
  )
  const open = spec.lab.steps.filter(({ id }) => {
    const verdict = outcomes.find((outcome) => outcome.id === id)?.verdict
    return verdict !== 'passed' && verdict !== 'not applicable'
  })
  const file = `labs/${spec.lab.folder}/solution.ts`
  return open
    .slice(0, 1)
    .map(({ id }) => ({ file, text: `step "${id}" does not pass when it is solved.` }))
}

async function typesText({ lab }: LabSpec, { cluster }: LabBench): Promise<LintMessage[]> {
  const shell = new FenceShell(projectRoot, learnerEnvironment(cluster.name))
  const solution = await loadSolution(lab.folder)
  try {
    for (const part of typedParts(lab, solution)) {
      console.log(`\n${part.commands}`)
      const { exitCode, output } = await shell.type({
        ...part,
        timeout: part.timeout * timeoutScale(),
      })
      if (exitCode === 0) continue
      // Which of the commands it was, and what a check has found.
      console.log(plainText(output))
      const last = output.split('\n').at(-1) ?? ''
      return [
        {
          file: `labs/${lab.folder}/README.md:${part.line}`,
          text: `a command here fails: ${last}`,
        },
      ]
    }
    return []
  } finally {
    shell.end()
  }
}
