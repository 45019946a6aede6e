// Answers a lab's question and grades the answer:  Q=service-chain A=KUBE-SVC-… [LAB=1] answer.ts

import { consent } from '../cluster/consent.ts'
import { selectCluster } from '../cluster/select.ts'
import { loadSpec } from '../grading/grader.ts'
import { judge } from '../grading/judge.ts'
import { findStep, type LabDefinition, labNumber, listLabs, mustRunHere, readLab } from '../grading/lab-definition.ts'
import { notesName } from '../grading/lab-notes.ts'
import { failureLines, measuredLines, outcomeLine } from '../grading/learner-report.ts'
import { openCluster } from '../grading/live-cluster.ts'
import { answerCommand, keepAnswer } from '../grading/question.ts'
import { ExitCode, main, UserError } from '../host/main.ts'
import { shortened } from '../host/plain-text.ts'

await main(async () => {
  const { Q: id = '', A: text, LAB } = process.env
  const lab = LAB ? readLab(labNumber(LAB)) : labThatAsks(id)
  const step = findStep(lab, id)
  if (step.question === undefined)
    throw new UserError(`Step "${id}" of lab ${lab.number} has no question. ${questionsOf([lab])}`)
  if (!text) throw new UserError(`${step.question} Answer with: ${answerCommand(lab.number, id)}`)
  const cluster = await selectCluster()
  const source = await openCluster(cluster)
  await mustRunHere(cluster, lab)
  await consent(cluster, `write the answer into ConfigMap "${notesName(lab.number)}" in namespace "default"`)
  await keepAnswer(source.live.client, lab.number, id, text)
  const { outcomes } = await judge(await loadSpec(lab), source, { only: [id] })
  for (const outcome of outcomes) {
    console.log(`${step.question}\n${outcomeLine(outcome, step)}`)
    for (const line of measuredLines(outcome)) console.log(line)
    for (const line of failureLines(lab.number, step, outcome)) console.log(line)
  }
  const verdicts = outcomes.map(({ verdict }) => verdict)
  if (verdicts.includes('could not check')) return ExitCode.trouble
  return verdicts.every((verdict) => verdict === 'passed') ? ExitCode.passed : ExitCode.notYet
})

/** The only lab with a step of that id. Throws with all questions if there is none or more than one. */
function labThatAsks(id: string): LabDefinition {
  const labs = listLabs().flatMap(({ number }) => readable(number))
  const holding = labs.filter(({ steps }) => steps.some((step) => step.id === id))
  const asking = holding.filter((lab) => findStep(lab, id).question !== undefined)
  const [lab, another] = asking.length > 0 ? asking : holding
  if (lab && another) throw new UserError(`Labs ${lab.number} and ${another.number} have a step "${id}": add LAB=…`)
  return lab ?? unknownQuestion(id, labs)
}

/** A lab that is still being written may not be valid yet; questions of other labs can be answered anyway. */
function readable(number: number): LabDefinition[] {
  try {
    return [readLab(number)]
  } catch {
    return []
  }
}

function unknownQuestion(id: string, labs: readonly LabDefinition[]): never {
  throw new UserError(`No lab has the question "${shortened(id, 60)}". ${questionsOf(labs)}`)
}

function questionsOf(labs: readonly LabDefinition[]): string {
  const ids = labs.flatMap(({ steps }) => steps.filter(({ question }) => question !== undefined).map(({ id }) => id))
  return ids.length > 0 ? `Questions: Q=${ids.join(', Q=')}.` : 'There is no question.'
}
