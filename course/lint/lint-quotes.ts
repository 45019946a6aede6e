// The blockquotes in which a lab's text asks: equal to lab.yaml, where the learner is asked, and
// answered by a command.

import type { WrittenLab } from '../../grading/lab-definition.ts'
import { INCIDENT_STEP } from '../incident/incident-note.ts'
import type { AskedQuote, Fence, LabText } from '../lab-text.ts'
import type { LintMessage } from './course-files.ts'

const NAMES = { predict: 'Predict', question: 'Question', recall: 'Recall' } as const

/** What lab.yaml asks, with the place where the text must ask it. */
interface ExpectedQuote {
  kind: AskedQuote['kind']
  id: string
  ask: string
  choices: readonly string[]
}

/** Markdown's marks around names do not count. */
const plain = (text: string) => text.replace(/[`*]/g, '').replace(/\s+/g, ' ').trim()

/** Compares the blockquotes of a text with lab.yaml. */
export function* lintQuotes(path: string, text: LabText, lab: WrittenLab): Generator<LintMessage> {
  const { quotes, fences } = text
  const known = new Set<AskedQuote>()
  for (const expected of expectedQuotes(lab)) {
    const { kind, id } = expected
    const found = quotes.find((quote) => quote.kind === kind && isOf(quote, id))
    if (!found) {
      if (!isTypedQuestion(expected, fences))
        yield { file: path, text: `has no blockquote ${firstLine(expected)} for "${id}".` }
      continue
    }
    known.add(found)
    const file = `${path}:${found.line}`
    for (const fault of quoteFaults(found, expected, lab.id)) yield { file, text: fault }
    if (isAskedTooLate(found, expected, fences))
      yield { file, text: `a prediction must be asked before the commands of its step "${id}".` }
  }
  for (const quote of quotes)
    if (!known.has(quote))
      yield { file: `${path}:${quote.line}`, text: 'asks what lab.yaml does not ask.' }
}

const firstLine = ({ kind, ask }: ExpectedQuote) => `"> **${NAMES[kind]}.** ${ask}"`

/** In labs that are older than the blockquotes of questions, a command of the text answers. */
const isTypedQuestion = ({ kind, id }: ExpectedQuote, fences: readonly Fence[]): boolean =>
  kind === 'question' && fences.some(({ commands }) => commands.includes(`Q=${id} `))

/** How a blockquote differs from what lab.yaml asks there. */
function* quoteFaults(found: AskedQuote, expected: ExpectedQuote, lab: number): Generator<string> {
  const { id, ask, choices } = expected
  if (plain(found.ask) !== plain(ask))
    yield `must have the text of lab.yaml: ${firstLine(expected)}`
  if (found.choices.join() !== choices.join())
    yield `must list the choices of lab.yaml: ${choices.map((name) => `\`${name}\``).join(' · ')}`
  if (!/ A=…|A='…'/.test(found.command))
    yield `must end with \`make answer LAB=${lab} Q=${id} A=…\`.`
}

/** Whether a prediction is after all commands of its step; commands before it may prepare it. */
function isAskedTooLate(
  { line }: AskedQuote,
  { kind, id }: ExpectedQuote,
  fences: readonly Fence[],
): boolean {
  // An incident must have begun, and its repair is no command of the text.
  if (kind !== 'predict' || id === INCIDENT_STEP) return false
  const last = fences.findLast(({ step }) => step === id)
  return last !== undefined && last.line < line
}

const isOf = ({ command }: AskedQuote, id: string) => new RegExp(`\\bQ=${id}(?= |$)`).test(command)

function expectedQuotes({ steps, recall }: WrittenLab): ExpectedQuote[] {
  return [
    ...recall.map(({ id, ask, choices }): ExpectedQuote => ({ kind: 'recall', id, ask, choices })),
    ...steps.flatMap(({ id, predict, question }): ExpectedQuote[] => [
      ...(predict ? [{ kind: 'predict', id, ...predict } as const] : []),
      ...(question ? [{ kind: 'question', id, ...question } as const] : []),
    ]),
  ]
}
