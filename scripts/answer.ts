// Answers a lab's question and grades the answer:  Q=service-chain A=KUBE-SVC-… [LAB=1] answer.ts
import { consent } from '../cluster/consent.ts'
import { selectCluster } from '../cluster/select.ts'
import { loadSpec } from '../grading/grader.ts'
import { judge } from '../grading/judge.ts'
import { labNumber, listLabs, mustRunHere, readLab } from '../grading/lab-definition.ts'
import { notesName } from '../grading/lab-notes.ts'
import { failureLines, measuredLines, outcomeLine } from '../grading/learner-report.ts'
import { openCluster } from '../grading/live-cluster.ts'
import { answerCommand, keepAnswer } from '../grading/question.ts'
import { ExitCode, main, UserError } from '../host/main.ts'
import { shortened } from '../host/plain-text.ts'

await main(async () => {
  const { Q: id = '', A: text, LAB } = process.env
  const { lab, step } = questionOf(id, LAB)
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

/** The only step of that id with a question, in that lab or in all. */
function questionOf(id: string, number: string | undefined) {
  const labs = number ? [readLab(labNumber(number))] : listLabs().map((lab) => readLab(lab.number))
  const steps = labs.flatMap((lab) => lab.steps.map((step) => ({ lab, step })))
  const named = steps.filter(({ step }) => step.id === id)
  const [found, another] = named.filter(({ step }) => step.question !== undefined)
  if (found && another)
    throw new UserError(`Labs ${found.lab.number} and ${another.lab.number} have a step "${id}": add LAB=…`)
  if (found) return found
  const ids = steps.flatMap(({ step }) => (step.question === undefined ? [] : `Q=${step.id}`))
  const questions = [...new Set(ids)].join(', ')
  const fault = named[0]
    ? `Step "${id}" of lab ${named[0].lab.number} has no question.`
    : id === ''
      ? 'Q= must name a question.'
      : `${number ? `Lab ${number} has no` : 'No lab has the'} question "${shortened(id, 60)}".`
  throw new UserError(`${fault} ${questions === '' ? 'There is no question.' : `Questions: ${questions}.`}`)
}
