import { parseClaims, parseLab, type WrittenLab } from '../../grading/lab-definition.ts'
import type { LabSolution } from '../lab-solution.ts'
import { type Fence, type LabText, parseLabText, SEEN } from '../lab-text.ts'
import { SHORTEN, WORKSHOP_PLANS } from '../workshop-plan.ts'
import {
  CLAIM_FILES,
  type CourseFiles,
  cardOf,
  deckOf,
  filesOfLab,
  type LabFiles,
  type LintMessage,
  oneLine,
  UNWRITTEN,
} from './course-files.ts'
import { effortOf, effortOfParts, isTrueTo } from './effort.ts'
import { STATED_MINUTES, withPlanTables } from './fix-minutes.ts'
import { lintQuotes } from './lint-quotes.ts'
import { lintReferences } from './lint-references.ts'

type LintMessages = Generator<LintMessage>

const CLAIMS = CLAIM_FILES.claims
const POINTS = 100
const FIX_MINUTES =
  'make lint-labs FIX=1 writes the minutes of the model at every place that states them.'
const COMMAND = /`[^`]*(?:make|kubectl|ipt|ipv|ips|iptables|ipvsadm|ipset) [^`]+`/

const MAKE = /\bmake (?:-s )?([a-z][a-z0-9-]*?)(?:-\d+)?(?=[ )"';|]|$)/gm
/** The name of a node of the cluster that `make up` starts without NAME. */
const NODE_NAME = /\bk8s-guide-(?:worker\d*|control-plane)\b/g
/** A manifest file; `-` is standard input. */
const MANIFEST = /\bkubectl [a-z]+ -f (?!-)(\S+)/g

/**
 * Checks the course's files for missing files, steps without hints, points, claims or text, and
 * unknown commands. Pure; `--run` also runs labs on a cluster.
 */
export const lintCourse = (course: CourseFiles): LintMessage[] => [...complaintsAbout(course)]

function* complaintsAbout(course: CourseFiles): LintMessages {
  const written = new Map<string, WrittenLab>()
  const taking = new Map<number, number>()
  for (const lab of course.labs) {
    const { folder, sources, solution } = lab
    const files = filesOfLab(folder)
    yield* lintFiles(lab)
    yield* lintReferences(sources)
    const definition = yield* parsed(parseLab, files.definition, sources)
    const text = yield* parsed(parseLabText, files.text, sources)
    if (definition) {
      written.set(folder, definition)
      taking.set(definition.id, minutesOf(definition, text))
      yield* lintDefinition(files.definition, folder, definition)
      yield* lintAsking(files.definition, definition)
      yield* lintDeck(lab, definition)
      if (text) yield* lintText(files.text, text, definition, course)
      if (solution) yield* lintSolution(files.solution, solution, definition, text)
    }
    yield* lintOverview(lab, definition, course)
  }
  yield* lintNumbers(course)
  yield* lintPlans(taking, course)
  yield* lintWritten(CLAIM_FILES.curriculum, course.curriculum)
  yield* lintClaims(course, written)
}

/** A lab has all of its files, they can be loaded, and no part of a scaffold is left. */
function* lintFiles({ folder, sources, unloadable }: LabFiles): LintMessages {
  const sentence =
    'is missing: a lab consists of lab.yaml, README.md, solution.ts and a spec of the same name.'
  for (const file of Object.values(filesOfLab(folder)))
    if (!(file in sources)) yield { file, text: sentence }
  if (!(cardOf(folder) in sources))
    yield {
      file: cardOf(folder),
      text: 'is missing: one page of commands and facts to take to work.',
    }
  yield* unloadable
  for (const [path, text] of Object.entries(sources)) yield* lintWritten(path, text)
}

function* lintWritten(path: string, text: string): LintMessages {
  const line = text.split('\n').findIndex((candidate) => candidate.includes(UNWRITTEN))
  const [, lab, id] = /^labs\/(\d+)-[^/]+\/([^/]+)\.step\.md$/.exec(path) ?? []
  if (lab !== undefined && line === -1)
    yield {
      file: path,
      text: `is written, but not in its lab yet: make new-step LAB=${Number(lab)} ID=${id}`,
    }
  if (line !== -1)
    yield { file: `${path}:${line + 1}`, text: `text is still to be written (${UNWRITTEN}).` }
}

/** A file as its parser reads it; undefined if it is missing or invalid. */
function* parsed<Part>(
  parse: (text: string, file: string) => Part,
  file: string,
  sources: LabFiles['sources'],
): Generator<LintMessage, Part | undefined> {
  const text = sources[file]
  try {
    return text === undefined ? undefined : parse(text, file)
  } catch (error) {
    yield { file, text: oneLine(error) }
    return undefined
  }
}

/**
 * What the text of a lab ends with, behind its steps: the page and the terminal's guide show it at
 * the end.
 */
const ENDING = {
  'what its learner takes home': '## What you take home',
  'its card': '[CARD.md](CARD.md)',
  'something to try elsewhere': '**Try this on your cluster',
  'its sources by title and number': '## References',
}

/** Questions about earlier labs with which a lab opens. */
const RECALLED = 2

/**
 * A lab asks about earlier labs, and in at least half of its steps; in a lab of incidents each of
 * those asks.
 */
function* lintAsking(file: string, { steps, recall, unguided }: WrittenLab): LintMessages {
  if (recall.length < RECALLED)
    yield { file, text: `has ${recall.length} of the ${RECALLED} questions under "recall:".` }
  const asking = steps.filter(({ predict, question }) => predict || question).length
  if (unguided === 0 && 2 * asking < steps.length)
    yield { file, text: `asks in ${asking} of its ${steps.length} steps; half of them must.` }
}

/**
 * The number is that of the folder, points add up to 100, hints go from general to the command,
 * titles are different sentences.
 */
function* lintDefinition(file: string, folder: string, { id, steps }: WrittenLab): LintMessages {
  if (id !== Number(folder.slice(0, 2)))
    yield { file, text: `id is ${id}, but the folder has another number.` }
  const points = steps.reduce((sum, step) => sum + step.points, 0)
  const titles = steps.map(({ title }) => title)
  if (points !== POINTS)
    yield { file, text: `the points of its steps add up to ${points}, not ${POINTS}.` }
  for (const [index, { id, title, hints }] of steps.entries()) {
    if (titles.indexOf(title) !== index)
      yield { file, text: `step "${id}" has the same title as another step.` }
    if (!COMMAND.test(hints.at(-1) ?? ''))
      yield { file, text: `the last hint of step "${id}" must show a command.` }
    if (COMMAND.test(hints[0] ?? ''))
      yield { file, text: `the first hint of step "${id}" must not show a command.` }
    if (new Set(hints).size !== hints.length)
      yield { file, text: `step "${id}" has the same hint twice.` }
  }
}

/**
 * The text has a section for each step, in order, with the observed output; its commands and files
 * exist.
 */
function* lintText(
  file: string,
  text: LabText,
  lab: WrittenLab,
  course: CourseFiles,
): LintMessages {
  const { steps } = lab
  const ids = steps.map(({ id }) => id)
  const own = [...text.sections.keys()]
  const missing = ids.filter((id) => !own.includes(id))
  const unknown = own.filter((id) => !ids.includes(id))
  for (const id of missing)
    yield { file, text: `has no section for step "${id}" (<!-- step: ${id} -->).` }
  for (const id of unknown)
    yield { file, text: `has a section for "${id}", which is not a step of the lab.` }
  if (missing.length + unknown.length === 0 && own.join() !== ids.join())
    yield { file, text: 'its sections must be in the order of the steps.' }
  for (const [id, { seen }] of text.sections)
    if (seen === '') yield { file, text: `the section of step "${id}" must contain ${SEEN}` }
  for (const [what, mark] of Object.entries(ENDING))
    if (!text.outro.includes(mark)) yield { file, text: `must end with ${what} ("${mark}").` }
  for (const fence of text.fences) yield* lintFence(file, fence, course)
  yield* lintQuotes(file, text, lab)
  yield* lintMinutes(file, text, lab)
}

/** The stated minutes are those of the model, and the text's own. */
function* lintMinutes(file: string, text: LabText, lab: WrittenLab): LintMessages {
  const effort = effortOf(text, lab)
  const { parts, minutes } = lab
  const ofParts = parts.reduce((sum, part) => sum + part.minutes, 0)
  if (parts.length > 0 && ofParts !== minutes)
    yield { file, text: `its parts have ${ofParts} minutes together; lab.yaml states ${minutes}.` }
  for (const { part, effort: ofPart } of effortOfParts(text, lab))
    if (!isTrueTo(ofPart, part.minutes))
      yield {
        file,
        text: `its part ${part.id} takes about ${ofPart.minutes} minutes by the model; lab.yaml states ${part.minutes}. ${FIX_MINUTES}`,
      }
  const [, written] = STATED_MINUTES.exec(text.intro) ?? []
  if (written !== undefined && Number(written) !== lab.minutes)
    yield { file, text: `plans ${written} minutes; lab.yaml states ${lab.minutes}.` }
  if (!isTrueTo(effort, lab.minutes))
    yield {
      file,
      text: `takes about ${effort.minutes} minutes by the model (course/lint/effort.ts); lab.yaml states ${lab.minutes}. ${FIX_MINUTES}`,
    }
}

function* lintFence(
  path: string,
  { commands, line }: Fence,
  { makefile, exists }: CourseFiles,
): LintMessages {
  const targets = new Set(
    [...makefile.matchAll(/^([a-z][a-z0-9-]*?)(?:-%)?:/gm)].map(([, name]) => name),
  )
  const file = `${path}:${line}`
  for (const [, name = ''] of commands.matchAll(MAKE))
    if (!targets.has(name)) yield { file, text: `"make ${name}" is not a target of the Makefile.` }
  for (const [name] of commands.matchAll(NODE_NAME))
    yield {
      file,
      text: `"${name}" exists only in a cluster without NAME=; get a node's name with kubectl.`,
    }
  for (const [, manifest = ''] of commands.matchAll(MANIFEST))
    if (!exists(manifest)) yield { file, text: `the file "${manifest}" does not exist.` }
}

/**
 * The command as the text shows it: the reader has to find the answer that the solution computes.
 */
const withoutAnswer = (command: string) => command.replace(/^(make answer .*?\bA=).*$/, "$1'…'")

/**
 * The reference solution has an entry for each step, in order, and its commands are in the text of
 * that step.
 */
function* lintSolution(
  file: string,
  solution: LabSolution,
  { steps }: WrittenLab,
  text?: LabText,
): LintMessages {
  const ids = steps.map(({ id }) => id).join(', ')
  const own = Object.keys(solution.steps).join(', ')
  if (own !== ids)
    yield { file, text: `must have the steps ${ids} in this order; it has ${own || 'none'}.` }
  if (!text) return
  for (const [id, { commands, cleanup, unguided }] of Object.entries(solution.steps)) {
    if (unguided) continue
    const typed = [
      ...text.fences
        .filter(({ step }) => step === id)
        .flatMap((fence) => fence.commands.split('\n')),
      ...text.quotes
        .filter(({ step }) => step === id)
        .map(({ command }) => command.replace(/\bA=….*$/, "A='…'")),
    ]
    for (const command of [...commands, ...(cleanup?.commands ?? [])])
      if (!typed.includes(command) && !typed.includes(withoutAnswer(command)))
        yield {
          file,
          text: `step "${id}" runs "${command}", which no fence of its section in the README contains.`,
        }
  }
}

/** A deck that states minutes states those of its lab. */
function* lintDeck({ folder, sources }: LabFiles, lab: WrittenLab): LintMessages {
  const file = deckOf(folder)
  const [, written] = STATED_MINUTES.exec(sources[file] ?? '') ?? []
  if (written !== undefined && Number(written) !== lab.minutes)
    yield {
      file,
      text: `says "about ${written} minutes"; lab.yaml states ${lab.minutes}. ${FIX_MINUTES}`,
    }
}

function* lintOverview(
  { folder }: LabFiles,
  definition: WrittenLab | undefined,
  { readme }: CourseFiles,
): LintMessages {
  const row = readme
    .split('\n')
    .find((line) => line.startsWith('|') && line.includes(`labs/${folder}/README.md`))
  if (row === undefined)
    yield { file: 'README.md', text: `its table of labs has no row for labs/${folder}.` }
  else if (definition && !row.trimEnd().endsWith(`| ${definition.minutes} |`))
    yield {
      file: 'README.md',
      text: `the row of labs/${folder} must end with its ${definition.minutes} minutes.`,
    }
}

function* lintNumbers({ labs }: CourseFiles): LintMessages {
  for (const [index, { folder }] of labs.entries()) {
    const first = labs.findIndex((lab) => lab.folder.slice(0, 2) === folder.slice(0, 2))
    if (first !== index)
      yield {
        file: `labs/${folder}`,
        text: `has the number of labs/${labs[first]?.folder}; choose another.`,
      }
  }
}

/** The minutes that a lab states, or those that FIX=1 would write. */
function minutesOf(lab: WrittenLab, text: LabText | undefined): number {
  const effort = text && effortOf(text, lab)
  return effort && !isTrueTo(effort, lab.minutes) ? effort.minutes : lab.minutes
}

/**
 * A plan of a workshop has at least the minutes that a whole lab takes, and INSTRUCTORS.md has the
 * tables of all plans.
 * @param taking minutes by number of the lab
 */
function* lintPlans(
  taking: ReadonlyMap<number, number>,
  { instructors }: CourseFiles,
): LintMessages {
  if (withPlanTables(instructors) !== instructors)
    yield {
      file: 'INSTRUCTORS.md',
      text: `has a table that is not the plan of course/workshop-plan.ts. ${FIX_MINUTES}`,
    }
  for (const [id, minutes] of taking)
    for (const { name, days } of WORKSHOP_PLANS)
      for (const block of days.flat())
        if (block.lab === id && block.part === undefined && block.minutes < minutes)
          yield {
            file: 'course/workshop-plan.ts',
            text: `plans ${block.minutes} minutes for lab ${id} in "${name}", which takes ${minutes}: correct the plan, so that its day adds up. ${SHORTEN}`,
          }
}

/** Each step proves a claim, and each claim is proven by steps that exist. */
function* lintClaims(
  { claims: text }: CourseFiles,
  labs: ReadonlyMap<string, WrittenLab>,
): LintMessages {
  let claims: Record<string, string[]>
  try {
    claims = parseClaims(text)
  } catch (error) {
    return yield { file: CLAIMS, text: oneLine(error) }
  }
  const steps = [...labs].flatMap(([folder, { steps }]) =>
    steps.map(({ id }) => `${Number(folder.slice(0, 2))}/${id}`),
  )
  const proving = new Set(Object.values(claims).flat())
  for (const step of steps)
    if (!proving.has(step))
      yield {
        file: CLAIMS,
        text: `step ${step} proves no claim: add it to a claim, or remove it from the lab.`,
      }
  for (const [claim, places] of Object.entries(claims))
    for (const place of places)
      if (!steps.includes(place))
        yield { file: CLAIMS, text: `claim ${claim} names ${place}, which is not a step.` }
}
