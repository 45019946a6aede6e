import { Refusal } from '../../dataplane/refusal.ts'
import type { WrittenLab } from '../../grading/lab-definition.ts'
import { withClaimedStep } from './claim-step.ts'
import {
  CLAIM_FILES,
  type CourseFiles,
  cardOf,
  deckOf,
  draftOf,
  filesOfLab,
  type LintMessage,
} from './course-files.ts'
import { lintCourse } from './lint-course.ts'
import {
  answerToRefuse,
  missingExports,
  solutionEntry,
  stepBreakage,
  stepCheck,
  stepImport,
} from './new-step-templates.ts'
import { exportsIn } from './signatures.ts'
import type { AnswerNames, NewStep, NewStepAsks, StepDraft } from './step-draft.ts'

/**
 * The files that a step is written in, by what they hold; `breakages`, `card` and `deck` only where
 * the lab has them.
 */
export function filesOfStep(folder: string, id: string) {
  const lab = Number(folder.slice(0, 2))
  return {
    ...filesOfLab(folder),
    ...CLAIM_FILES,
    module: `checks/${folder}/${id}.ts`,
    breakages: `test/labs/lab-${lab}-breakages.ts`,
    card: cardOf(folder),
    deck: deckOf(folder),
    test: `test/labs/lab-${lab}.test.ts`,
    draft: draftOf(folder, id),
    packets: 'labs/packets.yaml',
    typedCommands: 'course/typed-commands.ts',
  }
}

const ID = /^[a-z][a-z0-9-]*$/
const CLAIM = /^[A-Z]\d+$/
const ASKS: readonly string[] = ['predict', 'question'] satisfies NewStepAsks[]
const NEXT_CHECK = /^ {2}(?:step|liveStep|question|observe)\(|^\}\)/m
const NEXT_ENTRY = /^ {4}(?:'[a-z]|[a-z.])|^ {2}\},?$/m

/** What a lab's test breaks, up to the end of the table. */
const BREAKAGES = /^export const breakages = listBreakages<[\s\S]*?>\(\{\n[\s\S]*?^(?=\}\))/m
/** The answers that a lab's test types to see them refused, up to the end of their table. */
const WRONG_ANSWERS = /^export const wrongAnswers: [^=]*= \{\n[\s\S]*?^(?=\})/m

/** Why a step can't be added, one sentence for each fault; empty if it can. */
export function faultsOfNewStep(
  { after, id, asks, claim }: Omit<NewStep, 'asks'> & { asks?: string | undefined },
  { steps }: WrittenLab,
): string[] {
  const ids = steps.map((step) => step.id)
  const faults: string[] = []
  if (!ids.includes(after))
    faults.push(`AFTER="${after}" is not a step of the lab: its steps are ${ids.join(', ')}`)
  if (id === '') faults.push('ID is missing: name the new step, as in ID=node-port')
  else if (!ID.test(id))
    faults.push(`ID="${id}" is not an id: use small letters, digits and "-", as in ID=node-port`)
  else if (ids.includes(id)) faults.push(`ID="${id}" is a step of the lab already`)
  if (asks !== undefined && !ASKS.includes(asks))
    faults.push(
      `ASK="${asks}" is not how a step asks: use ASK=predict (before its commands), ASK=question (after them), or omit it`,
    )
  if (claim !== undefined && !CLAIM.test(claim))
    faults.push(
      `CLAIM="${claim}" is not the id of a claim: use a letter and a number, as in CLAIM=A7`,
    )
  return faults
}

/**
 * The files of a lab with one more step, by path: its definition, section, check and reference
 * solution, a breakage in the table of its test, a line of the card, a slide, its packet, and the
 * claim. Later sections are numbered again, and the step's points are taken from those that have
 * the most. Pure.
 * @param sources the text of each file that exists, by path
 * @throws Refusal when a file does not contain the step that the new one follows, or its check has
 * no module with its functions
 */
export function withNewStep(
  draft: StepDraft,
  folder: string,
  lab: Pick<WrittenLab, 'steps'>,
  sources: Readonly<Record<string, string>>,
): Record<string, string> {
  const { after, id, asks, claim, claimed } = draft
  const files = filesOfStep(folder, id)
  const number = Number(folder.slice(0, 2))
  const step = { lab: number, id, asks }
  const read = (file: string) => sources[file] ?? ''
  if (sources[files.module] === undefined)
    throw new Refusal(
      `${files.module} is missing, where the check of the step is: write it, with its functions as other modules of this folder have them.`,
    )
  const { definition, text, spec, solution, breakages, claims, curriculum } = files
  const unknown = missingExports(step, read(files.module))
  if (unknown.length > 0)
    throw new Refusal(
      `${files.module} does not export ${unknown.join(' and ')}: keep the names with which it was begun.`,
    )
  const changed: Record<string, string> = {
    [definition]: insert(
      withFewerPoints(read(definition), lab, draft.points),
      place(`^ {2}- id: ${after}\\n`, /^ {2}- id: |^\S/m, definition, after),
      `  - id: ${id}\n${draft.definition.replace(/^(?=.)/gm, '    ')}\n`,
    ),
    [text]: numbered(
      insert(
        read(text),
        place(`^<!-- step: ${after} -->\\n`, /^(?:## |# Part )/m, text, after),
        `${draft.section.trim().replace(/^## (.*)\n/, `## 0. $1\n\n<!-- step: ${id} -->\n`)}\n\n`,
      ),
    ),
    [spec]: importsModule(
      insert(
        read(spec),
        place(`\\b(?:step|liveStep|question)\\(\\s*'${after}'`, NEXT_CHECK, spec, after),
        stepCheck(step, wrapperOf(read(spec), after)),
      ),
      stepImport(step, folder),
    ),
    [solution]: importsTyped(
      insert(
        read(solution),
        place(`^ {4}(?:'${after}'|${after})(?=[:,])`, NEXT_ENTRY, solution, after),
        solutionEntry(draft),
      ),
      draft.solution,
      read(files.typedCommands),
    ),
  }
  const { breaks, refuses } = tablesIn(read(breakages))
  const unused = [
    ...(Object.keys(draft.broken).length > 0 && !breaks ? ['broken:'] : []),
    ...(draft.refused !== undefined && !refuses ? ['refused:'] : []),
  ]
  if (unused.length > 0)
    throw new Refusal(
      `The draft has ${unused.join(' and ')}, but ${breakages} has no table for it: delete it, and test the step in test/labs/lab-${number}.test.ts.`,
    )
  if (draft.isMoment && Object.keys(draft.broken).length > 0 && !isByStep(read(files.test)))
    throw new Refusal(
      `The draft has broken: and moment: true, but ${files.test} breaks a lab that is solved, where the state was taken back: delete broken:, and break it in a test of its own there, with whileBroken.`,
    )
  if (breaks)
    changed[breakages] = read(breakages)
      .replace(BREAKAGES, (entries) => entries + stepBreakage(draft))
      .replace(WRONG_ANSWERS, (entries) => entries + answerToRefuse(draft))
  const { card, slide } = draft
  if (card !== undefined) changed[files.card] = withCardFact(read(files.card), card)
  if (slide !== undefined)
    changed[files.deck] = withSlide(read(files.deck), folder, slide, stepsTo(lab, after))
  if (draft.packet !== undefined)
    changed[files.packets] = withPacket(
      read(files.packets),
      number,
      `${id}: ${draft.packet}`,
      stepsTo(lab, after),
    )
  if (claim !== undefined) {
    const texts = { claims: read(claims), curriculum: read(curriculum) }
    const order = { claim, claimed, place: `${number}/${id}`, after: `${number}/${after}` }
    const proven = withClaimedStep(texts, order)
    Object.assign(changed, { [claims]: proven.claims, [curriculum]: proven.curriculum })
  }
  return changed
}

/**
 * What the linter would say of the course with this step, apart from the module and the solution in
 * TypeScript. Pure.
 * @param changed as `withNewStep` returns it
 */
export function lintPlaced(
  course: CourseFiles,
  { after, id, commands }: StepDraft,
  folder: string,
  changed: Readonly<Record<string, string>>,
): LintMessage[] {
  const files = filesOfStep(folder, id)
  const labs = course.labs.map((lab) => {
    if (lab.folder !== folder) return lab
    const { [files.draft]: _, ...sources } = { ...lab.sources, ...changed }
    const solution = lab.solution && { ...lab.solution, steps: { ...lab.solution.steps } }
    if (solution) {
      const entries = Object.entries(solution.steps)
      entries.splice(entries.findIndex(([one]) => one === after) + 1, 0, [
        id,
        { commands: [...commands] },
      ])
      solution.steps = Object.fromEntries(entries)
    }
    return { ...lab, sources, solution }
  })
  const { claims: claimsFile, curriculum: curriculumFile } = files
  const claims = changed[claimsFile] ?? course.claims
  const curriculum = changed[curriculumFile] ?? course.curriculum
  const withoutLine = ({ file, text }: LintMessage) => `${file.replace(/:\d+$/, '')} ${text}`
  const known = new Set(lintCourse(course).map(withoutLine))
  return lintCourse({ ...course, labs, claims, curriculum }).filter(
    ({ file, text }) =>
      !known.has(withoutLine({ file, text })) &&
      !file.startsWith(files.module) &&
      !file.startsWith(files.solution),
  )
}

/** The message is about the minutes of a lab, which `make lint-labs FIX=1` states. */
export const isAboutMinutes = ({ text }: LintMessage): boolean => /\bminutes\b/.test(text)

/**
 * The function that the check of a step is given to, as in
 * `step('web', inIptablesMode(webHasChains))`.
 */
const wrapperOf = (spec: string, id: string): string | undefined =>
  new RegExp(`\\bstep\\('${id}', ([\\w.]+)\\([\\w.]+\\)`).exec(spec)?.[1]

/** Whether the lab's test has tables of what it breaks and of wrong answers. */
export const tablesIn = (breakages: string) => ({
  breaks: BREAKAGES.test(breakages),
  refuses: WRONG_ANSWERS.test(breakages),
})

/** Whether a lab's test plays and breaks one step after the other, each under its id. */
export const isByStep = (test: string): boolean => test.includes("'$id: ")

/** The packet of a step as labs/packets.yaml has it; undefined where the step is about none. */
export const writtenPacket = (packets: string, lab: number, step: string): string | undefined =>
  new RegExp(`^${lab}/${step}: (.*)$`, 'm').exec(packets)?.[1]

/**
 * The packets with one more, behind that of the latest of these steps that has one; else at the
 * end.
 */
function withPacket(packets: string, lab: number, line: string, steps: readonly string[]): string {
  const before = steps.findLast((step) => writtenPacket(packets, lab, step) !== undefined)
  if (before === undefined) return `${packets}\n${lab}/${line}\n`
  return packets.replace(
    new RegExp(`^${lab}/${before}: .*\n`, 'm'),
    (found) => `${found}${lab}/${line}\n`,
  )
}

/** The card with one more fact, behind the last item of a list; at its end where it has none. */
function withCardFact(card: string, fact: string): string {
  const items = [...card.matchAll(/^- .*\n(?: {2}.*\n)*/gm)]
  const last = items.at(-1)
  const at = last ? last.index + last[0].length : card.length
  return `${card.slice(0, at)}- ${fact}\n${card.slice(at)}`
}

/** The ids of a lab's steps up to this one. */
const stepsTo = ({ steps }: Pick<WrittenLab, 'steps'>, id: string): string[] =>
  steps.slice(0, steps.findIndex((step) => step.id === id) + 1).map((step) => step.id)

/**
 * The deck with one more slide, behind the last one with commands of the latest of these steps that
 * has one; else before its last one.
 */
function withSlide(deck: string, folder: string, slide: string, steps: readonly string[]): string {
  const shown = steps.map((id) => deck.lastIndexOf(`fence: ${folder}/${id}#`))
  const last = shown.findLast((at) => at !== -1)
  // The last slide sums up.
  const end = last === undefined ? deck.lastIndexOf('\n---\n') : deck.indexOf('\n---\n', last)
  const at = end === -1 ? deck.length : end
  return `${deck.slice(0, at)}\n---\n\n${slide}\n${deck.slice(at)}`
}

/** The definition with points less, each taken from the step that has the most of them then. */
function withFewerPoints(
  definition: string,
  { steps }: Pick<WrittenLab, 'steps'>,
  points: number,
): string {
  const left = new Map(steps.map((step) => [step.id, step.points]))
  for (let taken = 0; taken < points; taken++) {
    const [[richest, most] = ['', 0]] = [...left].sort(([, one], [, other]) => other - one)
    left.set(richest, most - 1)
  }
  return [...left].reduce(
    (text, [id, count]) =>
      text.replace(
        new RegExp(`(^ {2}- id: ${id}\\n(?:(?! {2}- id: ).*\\n)*? {4}points: )\\d+`, 'm'),
        `$1${count}`,
      ),
    definition,
  )
}

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
export function answerNames(solution: string): AnswerNames {
  const nameOfCall = (called: string) =>
    new RegExp(`^const (\\w+) = ${called}\\(`, 'm').exec(solution)?.[1]
  return { question: nameOfCall('answers'), predict: nameOfCall('predictions') }
}

/** Numbers the headings of sections in their order. */
function numbered(text: string): string {
  let number = 0
  return text.replace(/^## \d+\. /gm, () => `## ${++number}. `)
}

/** The solution with an import of what its new entry types. */
function importsTyped(source: string, entry: string, typedCommands: string): string {
  const used = entry.replace(/(['"`])(?:\\.|(?!\1)[\s\S])*\1|\/\/.*/g, '')
  const isUsed = (name: string) => new RegExp(`(?<![.\\w])${name}\\b(?!:)`).test(used)
  return source.replace(
    /^import \{([^}]*)\} from '\.\.\/\.\.\/course\/typed-commands\.ts'$/m,
    (_, listed: string) => {
      const known = listed.split(',').flatMap((name) => name.trim() || [])
      const added = exportsIn(typedCommands).filter((name) => isUsed(name) && !known.includes(name))
      return `import { ${[...known, ...added].join(', ')} } from '../../course/typed-commands.ts'`
    },
  )
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
