// What `make answer` does at a step: the prediction until one was given, then the question, or what
// it is for a learner who gives up.

import { consent } from '../cluster/consent.ts'
import type { Cluster } from '../cluster/driver.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import type { CheckedStep, LabSpec } from '../grading/check-context.ts'
import type { StepOutcome } from '../grading/failure.ts'
import { type JudgeOptions, judge } from '../grading/judge.ts'
import { notesName, writeNotes } from '../grading/lab-notes.ts'
import { failureLines, measuredLines, outcomeLine } from '../grading/learner-report.ts'
import { askedLines, learningLines, priceOfWrong } from '../grading/learning-lines.ts'
import { learningCost } from '../grading/learning-notes.ts'
import type { OpenedCluster } from '../grading/live-cluster.ts'
import {
  keepAnswer,
  keepGivenUp,
  keepPrediction,
  storedPrediction,
  type Truth,
} from '../grading/question.ts'
import { recallKey } from '../grading/recall.ts'
import { revealStep } from '../grading/reveal.ts'
import { ExitCode } from '../host/main.ts'

/** What to print, and the exit code of the command. */
export interface AnswerResult {
  lines: string[]
  exitCode: number
}

/**
 * Keeps the prediction of a step if it has one that was not given yet, else the answer to its
 * question, and grades the step. Throws Refusal for an answer that is not among the choices.
 */
export async function answerStep(
  spec: LabSpec,
  step: CheckedStep,
  source: OpenedCluster,
  text: string,
): Promise<AnswerResult> {
  const { client } = source.live
  const lab = spec.lab.number
  const { id, predict, question } = step
  const known = predict && (await storedPrediction(client, lab, id))
  if (predict && (!known || !question)) {
    const kept = await keepPrediction(client, lab, step, text)
    const outcome = await judgeQuietly(spec, step, source)
    const isFirst = !known
    const lines = [
      ...askedLines('Predict', predict),
      isFirst
        ? `Your prediction "${kept.text}" is kept. A wrong one costs nothing.`
        : `The first prediction counts: "${kept.text}".`,
      ...resultLines(lab, step, outcome, isFirst),
    ]
    return { lines, exitCode: isFirst ? ExitCode.passed : exitCodeOf(outcome) }
  }
  if (!question) throw new Error(`Step "${id}" of lab ${lab} asks nothing.`)
  await keepAnswer(client, lab, step, text)
  const outcome = await judgeStepOf(spec, id, source)
  const price = outcome.verdict === 'passed' ? '' : priceOfWrong(step)
  const lines = [
    ...askedLines('Question', question),
    ...(price ? [price] : []),
    ...resultLines(lab, step, outcome, false),
  ]
  return { lines, exitCode: exitCodeOf(outcome) }
}

/**
 * Shows what a step's prediction and question come to, which costs its points for understanding if
 * it had not been answered.
 */
export async function showAnswer(
  spec: LabSpec,
  step: CheckedStep,
  source: OpenedCluster,
): Promise<AnswerResult> {
  const lab = spec.lab.number
  const revealed = await revealStep(spec, step.id, source)
  if ('verdict' in revealed) {
    const sentence =
      'There is nothing to show yet: the state that this step is about does not hold.'
    return {
      lines: [sentence, ...resultLines(lab, step, revealed, false)],
      exitCode: exitCodeOf(revealed),
    }
  }
  const before = await judgeStepOf(spec, step.id, source)
  if (before.verdict !== 'passed') await keepGivenUp(source.live.client, lab, step.id)
  const outcome = before.verdict === 'passed' ? before : await judgeStepOf(spec, step.id, source)
  const lines = [
    ...(step.predict && revealed.predict
      ? [...askedLines('Predict', step.predict), ...truthLines(revealed.predict)]
      : []),
    ...(step.question && revealed.question
      ? [...askedLines('Question', step.question), ...truthLines(revealed.question)]
      : []),
    ...resultLines(lab, step, outcome, false),
  ]
  return { lines, exitCode: exitCodeOf(outcome) }
}

const truthLines = ({ accepts, inspect, because }: Truth): string[] => [
  `It is "${accepts[0] ?? ''}". To see it: ${inspect}`,
  ...(because === undefined ? [] : [because]),
]

async function judgeStepOf(
  spec: LabSpec,
  id: string,
  source: OpenedCluster,
  onWait?: JudgeOptions['onWait'],
): Promise<StepOutcome> {
  const options = { only: [id], ...(onWait && { onWait }) }
  const [outcome] = (await judge(spec, source, options)).outcomes
  return outcome ?? { id, verdict: 'could not check', reason: 'the step was not judged' }
}

/**
 * Judges a step without sending packets, which would be listed and counted beside the learner's
 * own.
 */
export const judgeQuietly = (
  spec: LabSpec,
  { id }: CheckedStep,
  source: OpenedCluster,
  onWait?: JudgeOptions['onWait'],
): Promise<StepOutcome> => judgeStepOf(spec, id, { ...source, live: source.live.quietly() }, onWait)

/**
 * The verdict, what was learnt, and for an answer that is not right the failure. A first prediction
 * is not told what else is open.
 */
function resultLines(
  lab: number,
  step: CheckedStep,
  outcome: StepOutcome,
  isPrediction: boolean,
): string[] {
  const learnt = learningLines(outcome.learning)
  if (isPrediction && outcome.verdict !== 'passed')
    return [
      ...(outcome.learning?.prediction?.accepts ? learnt : []),
      'Now go on with the commands of this step.',
    ]
  const cost = learningCost(
    step.understanding,
    outcome.learning ?? { wrongTries: 0, gaveUp: false },
  )
  const lost =
    outcome.verdict === 'passed' && cost > 0 ? [`Answers have cost ${cost} of its points.`] : []
  const shown = outcome.verdict === 'passed' ? learnt : []
  return [
    outcomeLine(outcome, step),
    ...lost,
    ...shown,
    ...measuredLines(outcome),
    ...failureLines(lab, step, outcome),
  ]
}

/**
 * Nothing is wrong with an answer to a step that this cluster can't have, such as one about
 * nftables without it in the kernel.
 */
function exitCodeOf({ verdict }: StepOutcome): number {
  if (verdict === 'could not check') return ExitCode.trouble
  return verdict === 'passed' || verdict === 'not applicable' ? ExitCode.passed : ExitCode.notYet
}

/** Keeps the right answer to a recall question in the notes of a running cluster. */
export async function keepRecall(
  cluster: Cluster,
  lab: number,
  id: string,
  text: string,
): Promise<void> {
  await consent(
    cluster,
    `write the answer into ConfigMap "${notesName(lab)}" in namespace "default"`,
  )
  const note = JSON.stringify({ text, at: new Date().toISOString() })
  await writeNotes(await kubeClient(cluster), lab, { [recallKey(id)]: note })
}
