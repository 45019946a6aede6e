// The blockquotes in which a lab's text asks: equal to lab.yaml, where the learner is asked, and answered by a command.

import type { WrittenLab } from '../../grading/lab-definition.ts'
import { INCIDENT_STEP } from '../incident/incident-note.ts'
import type { AskedQuote, LabText } from '../lab-text.ts'
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
    const { kind, id, ask, choices } = expected
    const found = quotes.find((quote) => quote.kind === kind && isOf(quote, id))
    if (found) known.add(found)
    const what = `"> **${NAMES[kind]}.** ${ask}"`
    if (!found) {
      // Labs that were written before their questions had blockquotes.
      const isTyped = fences.some((fence) => fence.commands.includes(`Q=${id} `))
      if (kind !== 'question' || !isTyped)
        yield { file: path, text: `has no blockquote ${what} for "${id}".` }
      continue
    }
    const file = `${path}:${found.line}`
    if (plain(found.ask) !== plain(ask))
      yield { file, text: `must have the text of lab.yaml: ${what}` }
    if (found.choices.join() !== choices.join())
      yield {
        file,
        text: `must list the choices of lab.yaml: ${choices.map((name) => `\`${name}\``).join(' · ')}`,
      }
    if (!/ A=…|A='…'/.test(found.command))
      yield { file, text: `must end with \`make answer LAB=${lab.id} Q=${id} A=…\`.` }
    const last = fences.findLast(({ step }) => step === id)
    // What a prediction needs may be prepared before it. An incident must have begun, and its repair is no command of the text.
    if (kind === 'predict' && id !== INCIDENT_STEP && last && last.line < found.line)
      yield { file, text: `a prediction stands before the commands of its step "${id}".` }
  }
  for (const quote of quotes)
    if (!known.has(quote))
      yield { file: `${path}:${quote.line}`, text: 'asks what lab.yaml does not ask.' }
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
