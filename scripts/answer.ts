// Answers what a step predicts or asks, and grades it:  Q=service-chain A=KUBE-SVC-… [LAB=1] [SHOW=1] answer.ts; Q= may be the
// number of a step.
import { consent } from '../cluster/consent.ts'
import { runningCluster, selectCluster } from '../cluster/select.ts'
import { answerStep, keepRecall, showAnswer } from '../course/answer-step.ts'
import { labInWork } from '../course/hints.ts'
import { findAsked } from '../grading/find-asked.ts'
import { loadSpec } from '../grading/grader.ts'
import { labNumber, mustRunHere } from '../grading/lab-definition.ts'
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
  const { lab } = place
  const id = 'recall' in place ? place.recall.id : place.step.id
  if ('recall' in place) {
    if (!text)
      throw new Refusal(`${place.recall.ask} Answer with: ${answerCommand(lab.number, id)}`)
    const { isRight, lines } = recallLines(place.recall, text)
    const running = await runningCluster().catch(() => undefined)
    if (running && isRight) await keepRecall(running, lab.number, id, text)
    for (const line of lines) console.log(linesFor(process.stdout, line, '', '  ').join('\n'))
    return isRight ? ExitCode.passed : ExitCode.notYet
  }
  const spec = await loadSpec(lab)
  const step = spec.steps.find((candidate) => candidate.id === id)
  if (!step) throw new Error(`Step "${id}" of lab ${lab.number} has no check.`)
  if (!text && !isOn('SHOW')) {
    const { predict, question } = step
    const lines = [
      ...(predict ? askedLines('Predict', predict) : []),
      ...(question ? askedLines('Question', question) : []),
      priceOfWrong(step),
      `Answer with: ${answerCommand(lab.number, id)}`,
    ]
    throw new Refusal(lines.filter(Boolean).join(' '))
  }
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
})
