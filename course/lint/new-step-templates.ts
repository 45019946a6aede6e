// What `make new-step` writes as TypeScript for a step, marked for the linter (UNWRITTEN) until an
// author replaces it. Pure.

import type { NewStep, StepDraft } from './step-draft.ts'

/** The step and its lab. */
interface TemplateStep extends Pick<NewStep, 'id' | 'asks'> {
  lab: number
}

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

/** @param wrapper a function that the check is given to */
export function stepCheck({ id, asks }: TemplateStep, wrapper?: string): string {
  const { check, truth } = checkNames(id)
  const wrapped = wrapper === undefined ? check : `${wrapper}(${check})`
  return `  step('${id}', ${wrapped}${asks ? `, { ${asks}: ${truth} }` : ''})\n`
}

/** The functions of its module that are not exported there. */
export function missingExports({ id, asks }: TemplateStep, module: string): string[] {
  const { check, truth } = checkNames(id)
  return [check, ...(asks ? [truth] : [])].filter(
    (name) => !new RegExp(`^export (?:async )?(?:function|const) ${name}\\b`, 'm').test(module),
  )
}

/**
 * The module with the check, and the right answer if the step asks: an example of each, which fails
 * until it is written.
 */
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
 * ✎ What is true once the step is solved. The functions keep their names. The lines are an example:
 * another Service is found by clusterService (grading/expect-object.ts), other parts of a node by
 * sets, virtualServers, chain, link or packetReaches (grading/expect-node.ts), requests are sent by
 * expectAnswers (grading/requests.ts). A failure's \`next\` is not shown where the last hint says
 * the same.
 */
export function ${check}({ nodes, snapshot }: CheckContext): void {
  const { address, port } = webService(snapshot)
  expectNodes(nodes)
    .chains('nat KUBE-SERVICES')
    .equalPrediction('iptables', \`\${address}:\${port} among the rules\`)
  fail({ inspect: 'make status', expected: 'a check of ${id}', actual: 'none is written' })
}
${asks ? right : ''}`
}

/** The entry of the reference solution. */
export const solutionEntry = ({ id, solution }: Pick<StepDraft, 'id' | 'solution'>): string =>
  `    ${stepKey(id)}: ${solution.replaceAll('\n', '\n    ')},\n`

/** A text as TypeScript writes it; the formatter chooses its quotes. */
const literal = (text: string): string => JSON.stringify(text)

/** A call, or a function: TypeScript, which no shell would read. */
const TYPESCRIPT = /^(?:[a-zA-Z]\w*\(['"`{(]|\(\{[^}]*\}\) => )/
const shellOrCall = (text: string): string => (TYPESCRIPT.test(text) ? text : literal(text))

export function stepBreakage({ id, broken }: Pick<StepDraft, 'id' | 'broken'>): string {
  const entries = Object.entries(broken).map(([what, how]) => {
    const written =
      typeof how === 'string'
        ? shellOrCall(how)
        : `{ ${Object.entries(how)
            .map(([key, text]) => `${key}: ${shellOrCall(text)}`)
            .join(', ')} }`
    return `    ${literal(what)}: ${written},\n`
  })
  return entries.length > 0 ? `  ${stepKey(id)}: {\n${entries.join('')}  },\n` : ''
}

/** A wrong answer that the lab's test types. */
export const answerToRefuse = ({ id, refused }: Pick<StepDraft, 'id' | 'refused'>): string =>
  refused === undefined ? '' : `  ${stepKey(id)}: ${literal(refused)},\n`
