import { parseLab } from '../../grading/lab-definition.ts'
import { parseLabText } from '../lab-text.ts'
import { WORKSHOP_PLANS, workshopTable } from '../workshop-plan.ts'
import { type CourseFiles, deckOf, filesOfLab, type LabFiles } from './course-files.ts'
import { effortOf, effortOfParts, isTrueTo } from './effort.ts'

/** Where a text or a deck states the minutes of its lab. */
export const STATED_MINUTES = /\b[Aa]bout\s+(\d+)\s+minutes\b/

/**
 * The minutes of the model at every place that states others: in lab.yaml, also of its parts, in
 * the text and the deck, and in the row of README.md; and the tables of INSTRUCTORS.md as the plans
 * are. Returns the changed files by path. Pure.
 */
export function withModelMinutes({
  labs,
  readme,
  instructors,
}: Pick<CourseFiles, 'labs' | 'readme' | 'instructors'>): Record<string, string> {
  const changed: Record<string, string> = {}
  let overview = readme
  for (const lab of labs) {
    const minutes = minutesOf(lab)
    if (minutes === undefined) continue
    const { folder, sources } = lab
    const { definition, text } = filesOfLab(folder)
    changed[definition] = withParts(sources[definition] ?? '', minutes)
    changed[text] = withStatedMinutes(sources[text] ?? '', text, minutes.total)
    const deck = sources[deckOf(folder)]
    if (deck !== undefined) changed[deckOf(folder)] = withMinutes(deck, minutes.total)
    overview = overview.replace(
      new RegExp(`^(\\|.*labs/${folder}/README\\.md.*\\| )\\d+( \\|)$`, 'm'),
      `$1${minutes.total}$2`,
    )
  }
  const before: Record<string, string> = Object.assign(
    { 'README.md': readme, 'INSTRUCTORS.md': instructors },
    ...labs.map(({ sources }) => sources),
  )
  const whole = {
    ...changed,
    'README.md': overview,
    'INSTRUCTORS.md': withPlanTables(instructors),
  }
  return Object.fromEntries(Object.entries(whole).filter(([file, text]) => text !== before[file]))
}

/** INSTRUCTORS.md with the table of each plan, below the heading with the plan's name. */
export function withPlanTables(instructors: string): string {
  return WORKSHOP_PLANS.reduce((text, plan) => {
    const heading = `### ${plan.name.charAt(0).toUpperCase()}${plan.name.slice(1)}`
    const table = new RegExp(`(^${heading}\n(?:(?!#|\\|).*\n)*)(?:\\|.*(?:\n|$))+`, 'm')
    return text.replace(table, (_, before: string) => `${before}${workshopTable(plan)}\n`)
  }, instructors)
}

const withMinutes = (text: string, minutes: number): string =>
  text.replace(STATED_MINUTES, (all, stated: string) => all.replace(stated, `${minutes}`))

/** Only the text before the first step plans minutes for the lab. */
function withStatedMinutes(source: string, file: string, minutes: number): string {
  const { intro } = parseLabText(source, file)
  return source.replace(intro, () => withMinutes(intro, minutes))
}

interface Minutes {
  total: number
  parts: { id: string; minutes: number }[]
}

const withTotal = (parts: Minutes['parts']): Minutes => ({
  total: parts.reduce((sum, { minutes }) => sum + minutes, 0),
  parts,
})

/**
 * The minutes to state for a lab: its own where the model agrees, else the model's; undefined if it
 * can't be read.
 */
function minutesOf({ folder, sources }: LabFiles): Minutes | undefined {
  const files = filesOfLab(folder)
  try {
    const lab = parseLab(sources[files.definition] ?? '', files.definition)
    const text = parseLabText(sources[files.text] ?? '', files.text)
    const effort = effortOf(text, lab)
    if (lab.parts.length === 0)
      return { total: isTrueTo(effort, lab.minutes) ? lab.minutes : effort.minutes, parts: [] }
    const efforts = effortOfParts(text, lab)
    const kept = withTotal(
      efforts.map(({ part, effort }) => ({
        id: part.id,
        minutes: isTrueTo(effort, part.minutes) ? part.minutes : effort.minutes,
      })),
    )
    if (isTrueTo(effort, kept.total)) return kept
    // Each part is true to the model, but all of them differ from it in the same direction.
    return withTotal(efforts.map(({ part, effort }) => ({ id: part.id, minutes: effort.minutes })))
  } catch {
    // The linter reports it.
    return undefined
  }
}

function withParts(definition: string, { total, parts }: Minutes): string {
  const whole = definition.replace(/^minutes: \d+/m, `minutes: ${total}`)
  return parts.reduce(
    (text, { id, minutes }) =>
      text.replace(
        new RegExp(`(^ {2}- id: ${id}\\n(?: {4}.*\\n)*? {4}minutes: )\\d+`, 'm'),
        `$1${minutes}`,
      ),
    whole,
  )
}
