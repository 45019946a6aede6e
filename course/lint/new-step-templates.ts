// What `make new-step` writes for a step, marked for the linter (UNWRITTEN) until an author replaces it. Pure.

/** What the new step asks beside its state. */
export type NewStepAsks = 'predict' | 'question'

/** The step and its lab. */
export interface TemplateStep {
  lab: number
  id: string
  asks?: NewStepAsks | undefined
  /** The steps that the one before it needs. */
  needs: readonly string[]
}

const ASKED = '✎ What is asked?'

/** The id as a name of TypeScript. */
const identifierOfStep = (id: string): string =>
  id.replace(/-+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())

/** The functions of its module: no exported name is used twice in the repository. */
function checkNames(id: string) {
  const name = identifierOfStep(id)
  return { check: `${name}Holds`, truth: `${name}Truth` }
}

/** The import of its check. */
export function stepImport({ id, asks }: TemplateStep, folder: string): string {
  const { check, truth } = checkNames(id)
  return `import { ${check}${asks ? `, ${truth}` : ''} } from './${folder}/${id}.ts'\n`
}

/** The id as a key of an object. */
const stepKey = (id: string): string => (id.includes('-') ? `'${id}'` : id)

const needsLine = (needs: readonly string[]) =>
  needs.length > 0 ? `    needs: [${needs.join(', ')}]\n` : ''

export const stepDefinition = ({ id, asks, needs }: TemplateStep): string => `  - id: ${id}
    title: ✎ A sentence that is true once the step ${id} is solved
${asks ? `    ${asks}: ${ASKED}\n` : ''}    points: 1
${needsLine(needs)}    why: ✎ Why it matters, in a sentence or two.
    hints:
      - ✎ A general hint without a command.
      - ✎ The command, as in \`make web\`.

`

const quoteOf = ({ lab, id, asks }: TemplateStep) =>
  `> **${asks === 'predict' ? 'Predict' : 'Question'}.** ${ASKED}
> \`make answer LAB=${lab} Q=${id} A='…'\`

`

export function stepSection(step: TemplateStep): string {
  const { id, asks } = step
  return `## 0. ✎ What the step is about

<!-- step: ${id} -->

✎ The reason first, then the commands.

${asks === 'predict' ? quoteOf(step) : ''}\`\`\`bash
✎ the commands
${asks === 'question' ? '' : `make check-${step.lab} STEP=${id}\n`}\`\`\`

${asks === 'question' ? quoteOf(step) : ''}**What you saw.** ✎ What the commands printed, and what follows from it.

`
}

export function stepCheck({ id, asks }: TemplateStep): string {
  const { check, truth } = checkNames(id)
  return `  step('${id}', ${check}${asks ? `, { ${asks}: ${truth} }` : ''})\n`
}

/** The module with the check, and the right answer if the step asks: an example of each, which fails until it is written. */
export function stepModule({ lab, id, asks }: TemplateStep): string {
  const { check, truth } = checkNames(id)
  const right = `
/** The right answer, read from the cluster at that moment. */
export function ${truth}({ snapshot }: CheckContext): Truth {
  const { address } = webService(snapshot)
  return {
    accepts: [address],
    inspect: 'kubectl get service web',
    wrong: [{ when: '✎ a typical wrong answer', because: '✎ the misconception behind it.' }],
    because: '✎ Why it is right.',
  }
}
`
  return `// Lab ${lab}: ✎ what the step ${id} is about.

import type { CheckContext } from '../../grading/check-context.ts'
import { expectNodes } from '../../grading/expect-node.ts'
import { webService } from '../../grading/expect-object.ts'
import { fail } from '../../grading/failure.ts'
${asks ? "import type { Truth } from '../../grading/question.ts'\n" : ''}
/**
 * ✎ What is true once the step is solved. The lines are an example: another Service is found by clusterService (grading/expect-object.ts),
 * other parts of a node by chain, link, virtualServers or packetReaches (grading/expect-node.ts), requests are sent by expectAnswers (grading/requests.ts).
 */
export function ${check}({ nodes, snapshot }: CheckContext): void {
  const { address, port } = webService(snapshot)
  expectNodes(nodes)
    .sets('KUBE-CLUSTER-IP')
    .equalPrediction('ipvs', \`\${address}:\${port} in the set, and every other port of a Service\`)
  fail({ inspect: 'make status', expected: 'a check of ${id}', actual: 'none is written' })
}
${asks ? right : ''}`
}

/** The names under which a solution answers and predicts. */
export interface AnswerNames {
  question?: string | undefined
  predict?: string | undefined
}

export function solutionEntry({ id, asks }: TemplateStep, names: AnswerNames): string {
  const name = asks && names[asks]
  if (!name) return `    ${stepKey(id)}: { commands: ['✎ the commands'] },\n`
  const commands = "      { commands: ['✎ the commands'] },\n"
  const typed = `      ${name}('${id}', '✎ as typed', async () => '✎ as read from the bench'),\n`
  return `    ${stepKey(id)}: typing(\n${asks === 'predict' ? typed + commands : commands + typed}    ),\n`
}

export const stepBreakage = (id: string): string => `  ${stepKey(id)}: {
    '✎ what is broken on one node': '✎ the commands that break it there',
  },
`

/** A wrong answer that the lab's test types. */
export const answerToRefuse = (id: string): string =>
  `  ${stepKey(id)}: '✎ a typical wrong answer',\n`

/** A line of the card. */
export const cardFact = (id: string): string =>
  `- ✎ What the step ${id} leaves to take to work, in a line.\n`

/** A slide with the first commands of the step. */
export const stepSlide = (folder: string, id: string): string => `
---

## ✎ What the step ${id} shows

<!-- fence: ${folder}/${id}#1 -->

<!-- notes: 2 min
✎ What the participants expect, and what surprises them.
-->
`
