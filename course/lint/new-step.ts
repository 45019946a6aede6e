import { Refusal } from '../../dataplane/refusal.ts'
import type { WrittenLab } from '../../grading/lab-definition.ts'
import { withClaimedStep } from './claim-step.ts'
import { CLAIM_FILES, cardOf, deckOf, filesOfLab } from './course-files.ts'
import {
  type AnswerNames,
  answerToRefuse,
  cardFact,
  type NewStepAsks,
  solutionEntry,
  stepBreakage,
  stepCheck,
  stepDefinition,
  stepImport,
  stepModule,
  stepSection,
  stepSlide,
} from './new-step-templates.ts'

/** What `make new-step` is given. */
export interface NewStep {
  /** The step that it follows. */
  after: string
  id: string
  /** What it asks beside its state. */
  asks?: NewStepAsks | undefined
  /** The claim of the curriculum that it proves. */
  claim?: string | undefined
}

/** The files that a step is written in, by what they hold; `breakages`, `card` and `deck` only where the lab has them. */
export function filesOfStep(folder: string, id: string) {
  const lab = Number(folder.slice(0, 2))
  return {
    ...filesOfLab(folder),
    ...CLAIM_FILES,
    module: `checks/${folder}/${id}.ts`,
    breakages: `test/labs/lab-${lab}-breakages.ts`,
    card: cardOf(folder),
    deck: deckOf(folder),
  }
}

const ID = /^[a-z][a-z0-9-]*$/
const ASKS: readonly string[] = ['predict', 'question'] satisfies NewStepAsks[]
const NEXT_CHECK = /^ {2}(?:step|liveStep|question|observe)\(|^\}\)/m
const NEXT_ENTRY = /^ {4}(?:'[a-z]|[a-z.])|^ {2}\},?$/m

/** The answers that a lab's test types to see them refused, up to the end of their table. */
const WRONG_ANSWERS = /^export const wrongAnswers: [^=]*= \{\n[\s\S]*?^(?=\})/m

/** Why a step can't be added, one sentence for each fault; empty if it can. */
export function faultsOfNewStep(
  { after, id, asks }: { after: string; id: string; asks?: string | undefined },
  { steps }: WrittenLab,
): string[] {
  const ids = steps.map((step) => step.id)
  const faults: string[] = []
  if (!ids.includes(after))
    faults.push(`AFTER="${after}" is not a step of the lab: its steps are ${ids.join(', ')}`)
  if (!ID.test(id))
    faults.push(`ID="${id}" is not an id: use small letters, digits and "-", as in ID=node-port`)
  else if (ids.includes(id)) faults.push(`ID="${id}" is a step of the lab already`)
  if (asks !== undefined && !ASKS.includes(asks))
    faults.push(
      `ASK="${asks}" is not how a step asks: use ASK=predict (before its commands), ASK=question (after them), or omit it`,
    )
  return faults
}

/**
 * The files of a lab with one more step, by path: its definition, section, check and reference solution, marked for the linter
 * until they are written, a breakage in the table of its test, a line of the card, a slide, and the claim. Later sections are
 * numbered again, and the step's point is taken from the step that has the most. Pure.
 * @param sources the text of each file that exists, by path
 * @throws Refusal when a file does not contain the step that the new one follows, or the module of its check exists
 */
export function withNewStep(
  { after, id, asks, claim }: NewStep,
  folder: string,
  lab: Pick<WrittenLab, 'steps'>,
  sources: Readonly<Record<string, string>>,
): Record<string, string> {
  const files = filesOfStep(folder, id)
  const number = Number(folder.slice(0, 2))
  const needs = lab.steps.find((step) => step.id === after)?.needs ?? []
  const step = { lab: number, id, asks, needs }
  const read = (file: string) => sources[file] ?? ''
  if (sources[files.module] !== undefined)
    throw new Refusal(
      `${files.module} exists, where the check of the step would be: choose another ID.`,
    )
  const { definition, text, spec, solution, module, breakages, claims, curriculum } = files
  const changed: Record<string, string> = {
    [definition]: insert(
      withPointLess(read(definition), richestOf(lab)),
      place(`^ {2}- id: ${after}\\n`, /^ {2}- id: |^\S/m, definition, after),
      stepDefinition(step),
    ),
    [text]: numbered(
      insert(
        read(text),
        place(`^<!-- step: ${after} -->\\n`, /^## /m, text, after),
        stepSection(step),
      ),
    ),
    [spec]: importsModule(
      insert(
        read(spec),
        place(`\\b(?:step|liveStep|question)\\(\\s*'${after}'`, NEXT_CHECK, spec, after),
        stepCheck(step),
      ),
      stepImport(step, folder),
    ),
    [module]: stepModule(step),
    [solution]: insert(
      read(solution),
      place(`^ {4}(?:'${after}'|${after})(?=[:,])`, NEXT_ENTRY, solution, after),
      solutionEntry(step, answerNames(read(solution))),
    ),
  }
  const table = /^export const breakages = listBreakages<[^(]*\(\{\n[\s\S]*?^(?=\}\))/m
  if (table.test(read(breakages))) {
    const refused = asks === 'question' ? answerToRefuse(id) : ''
    changed[breakages] = read(breakages)
      .replace(table, (entries) => entries + stepBreakage(id))
      .replace(WRONG_ANSWERS, (entries) => entries + refused)
  }
  for (const [file, added] of [
    [files.card, withCardFact(read(files.card), id)],
    [files.deck, withSlide(read(files.deck), folder, after, id)],
  ] as const)
    if (sources[file] !== undefined) changed[file] = added
  if (claim !== undefined) {
    const texts = { claims: read(claims), curriculum: read(curriculum) }
    const order = { claim, place: `${number}/${id}`, after: `${number}/${after}` }
    const claimed = withClaimedStep(texts, order)
    Object.assign(changed, { [claims]: claimed.claims, [curriculum]: claimed.curriculum })
  }
  return changed
}

/** The card with one more fact, behind the last item of a list; at its end where it has none. */
function withCardFact(card: string, id: string): string {
  const items = [...card.matchAll(/^- .*\n(?: {2}.*\n)*/gm)]
  const last = items.at(-1)
  const at = last ? last.index + last[0].length : card.length
  return card.slice(0, at) + cardFact(id) + card.slice(at)
}

/** The deck with one more slide, behind the last one with commands of the step that it follows; else before its last one. */
function withSlide(deck: string, folder: string, after: string, id: string): string {
  const shown = deck.lastIndexOf(`fence: ${folder}/${after}#`)
  // The last slide sums up.
  const end = shown === -1 ? deck.lastIndexOf('\n---\n') : deck.indexOf('\n---\n', shown)
  const at = end === -1 ? deck.length : end
  return deck.slice(0, at) + stepSlide(folder, id) + deck.slice(at)
}

/** The step with the most points, which gives one. */
export const richestOf = ({ steps }: Pick<WrittenLab, 'steps'>): string =>
  steps.toSorted((one, other) => other.points - one.points)[0]?.id ?? ''

const withPointLess = (definition: string, id: string) =>
  definition.replace(
    new RegExp(`(^ {2}- id: ${id}\\n(?:(?! {2}- id: ).*\\n)*? {4}points: )(\\d+)`, 'm'),
    (_, before: string, points: string) => `${before}${Number(points) - 1}`,
  )

interface Place {
  found: RegExp
  /** What begins after the part that was found. */
  next: RegExp
  file: string
  after: string
}

const place = (found: string, next: RegExp, file: string, after: string): Place => ({
  found: new RegExp(found, 'm'),
  next,
  file,
  after,
})

function insert(source: string, { found, next, file, after }: Place, added: string): string {
  const match = found.exec(source)
  if (!match)
    throw new Refusal(
      `${file} has no part for step "${after}" that begins as in other labs: add the new step by hand, as CONTRIBUTING.md says.`,
    )
  const start = match.index + match[0].length
  const length = source.slice(start).search(next)
  const end = length === -1 ? source.length : start + length
  const before = source.slice(0, end)
  return `${before.endsWith('\n') ? before : `${before}\n`}${added}${source.slice(end)}`
}

/** Under which names a solution answers and predicts. */
function answerNames(solution: string): AnswerNames {
  const nameOfCall = (called: string) =>
    new RegExp(`^const (\\w+) = ${called}\\(`, 'm').exec(solution)?.[1]
  return { question: nameOfCall('answers'), predict: nameOfCall('predictions') }
}

/** Numbers the headings of sections in their order. */
function numbered(text: string): string {
  let number = 0
  return text.replace(/^## \d+\. /gm, () => `## ${++number}. `)
}

const pathOf = (line: string) => /'(.+)'/.exec(line)?.[1] ?? ''

/** An import at its place in the order of the others: those of `../` are before those of `./`. */
function importsModule(source: string, line: string): string {
  const path = pathOf(line)
  const earlier = [...source.matchAll(/^(?:\}|import .*) from '.+'$/gm)].filter(
    ([found]) => pathOf(found).startsWith('../') || pathOf(found) < path,
  )
  const last = earlier.at(-1)
  const at = last ? last.index + last[0].length + 1 : 0
  return source.slice(0, at) + line + source.slice(at)
}
