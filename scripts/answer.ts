// Answers a lab's question and grades the answer:  Q=service-chain A=KUBE-SVC-… [LAB=1] answer.ts
import { consent } from '../cluster/consent.ts'
import { selectCluster } from '../cluster/select.ts'
import { loadSpec } from '../grading/grader.ts'
import { judge } from '../grading/judge.ts'
import { findQuestion, labNumber, mustRunHere } from '../grading/lab-definition.ts'
import { notesName } from '../grading/lab-notes.ts'
import { failureLines, measuredLines, outcomeLine } from '../grading/learner-report.ts'
import { openCluster } from '../grading/live-cluster.ts'
import { answerCommand, keepAnswer } from '../grading/question.ts'
import { ExitCode, main, UserError } from '../host/main.ts'

await main(async () => {
  const { Q: id = '', A: text, LAB } = process.env
  const { lab, step } = findQuestion(id, LAB ? labNumber(LAB) : undefined)
  if (!text) throw new UserError(`${step.question} Answer with: ${answerCommand(lab.number, id)}`)
  const cluster = await selectCluster()
  const source = await openCluster(cluster)
  await mustRunHere(cluster, lab)
  await consent(cluster, `write the answer into ConfigMap "${notesName(lab.number)}" in namespace "default"`)
  await keepAnswer(source.live.client, lab.number, id, text)
  const [outcome] = (await judge(await loadSpec(lab), source, { only: [id] })).outcomes
  if (!outcome) return ExitCode.trouble
  console.log(`${step.question}\n${outcomeLine(outcome, step)}`)
  for (const line of [...measuredLines(outcome), ...failureLines(lab.number, step, outcome)]) console.log(line)
  if (outcome.verdict === 'could not check') return ExitCode.trouble
  return outcome.verdict === 'passed' ? ExitCode.passed : ExitCode.notYet
})
