// Answers what a step predicts or asks, and grades it: Q=service-chain A=KUBE-SVC-… [LAB=1]
// [SHOW=1] answer.ts; Q= may be the number of a step.
import { consent } from '../cluster/consent.ts'
import { runningCluster, selectCluster } from '../cluster/select.ts'
import { answerStep, keepRecall, showAnswer } from '../course/answer-step.ts'
import { labInWork } from '../course/hints.ts'
import type { CheckedStep } from '../grading/check-context.ts'
import { findAsked } from '../grading/find-asked.ts'
import { loadSpec } from '../grading/grader.ts'
import {
  type LabDefinition,
  labNumber,
  mustRunHere,
  type RecallQuestion,
} from '../grading/lab-definition.ts'
import { notesName } from '../grading/lab-notes.ts'
import { askedLines, priceOfWrong } from '../grading/learning-lines.ts'
import { openCluster } from '../grading/live-cluster.ts'
import { answerCommand } from '../grading/question.ts'
import { recallLines } from '../grading/recall.ts'
import { ExitCode, main, Refusal } from '../host/main.ts'
import { isOn } from '../host/switches.ts'
import { linesFor } from '../host/wrap-lines.ts'

await main(async () => {
  const { Q = '', A: text, LAB } = process.env
  const chosen = LAB ? labNumber(LAB) : undefined
  // A number is that of a step in the lab that is worked on.
  const isNumber = /^\d+$/.test(Q)
  const place = findAsked(
    Q,
    isNumber ? (chosen ?? (await labInWork(await selectCluster()))) : chosen,
  )
  return 'recall' in place
    ? answerRecall(place.lab.number, place.recall, text)
    : answerAsked(place.lab, place.step.id, text)
})

/** Answers a question about earlier labs, also where no cluster runs that could keep the answer. */
async function answerRecall(
  lab: number,
  recall: RecallQuestion,
  text: string | undefined,
): Promise<number> {
  const { id } = recall
  if (!text) throw new Refusal(`${recall.ask} Answer with: ${answerCommand(lab, id)}`)
  const { isRight, lines } = recallLines(recall, text)
  const running = await runningCluster().catch(() => undefined)
  if (running && isRight) await keepRecall(running, lab, id, text)
  for (const line of lines) console.log(linesFor(process.stdout, line, '', '  ').join('\n'))
  return isRight ? ExitCode.passed : ExitCode.notYet
}

/** Answers what a step predicts or asks, or shows the answer. */
async function answerAsked(
  lab: LabDefinition,
  id: string,
  text: string | undefined,
): Promise<number> {
  const spec = await loadSpec(lab)
  const step = spec.steps.find((candidate) => candidate.id === id)
  if (!step) throw new Error(`Step "${id}" of lab ${lab.number} has no check.`)
  if (!text && !isOn('SHOW')) throw new Refusal(describeAsked(step, lab.number))
  const cluster = await selectCluster()
  const source = await openCluster(cluster)
  await mustRunHere(cluster, lab)
  await consent(
    cluster,
    `write the answer into ConfigMap "${notesName(lab.number)}" in namespace "default"`,
  )
  const { lines, exitCode } = text
    ? await answerStep(spec, step, source, text)
    : await showAnswer(spec, step, source)
  for (const line of lines) console.log(line)
  return exitCode
}

/** What a step predicts and asks, and how to answer it. */
function describeAsked(step: CheckedStep, lab: number): string {
  const { id, predict, question } = step
  const lines = [
    ...(predict ? askedLines('Predict', predict) : []),
    ...(question ? askedLines('Question', question) : []),
    priceOfWrong(step),
    `Answer with: ${answerCommand(lab, id)}`,
  ]
  return lines.filter(Boolean).join(' ')
}
