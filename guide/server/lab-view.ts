// What pages are told of a lab: its text as blocks, the learner's progress, and the open incident.

import MarkdownIt, { type Token } from 'markdown-it'
import { loadIncidents } from '../../course/incident/incident.ts'
import { CLOSED_KEY, closedNote } from '../../course/incident/incident-note.ts'
import { openIncident } from '../../course/incident/revert-incident.ts'
import { INCIDENT_LAB } from '../../course/incident/shop.ts'
import {
  type GuideLab,
  isDone,
  type LabProgress,
  outcomeOf,
  pointsOf,
  shownStepId,
} from '../../course/lab-progress.ts'
import type { KeptPoints } from '../../course/lab-records.ts'
import { changesOnNodes } from '../../dataplane/view/changes.ts'
import type { NodeHoldings } from '../../dataplane/view/holdings.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { listLabs, readLab, type StepDefinition } from '../../grading/lab-definition.ts'
import { LabNotes } from '../../grading/lab-notes.ts'
import { differencesOf } from '../../grading/learner-report.ts'
import { learningLines } from '../../grading/learning-lines.ts'
import { findingOf, pointsWith } from '../../grading/report.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { plainText } from '../../host/plain-text.ts'
import type {
  AskBlock,
  Block,
  IncidentPush,
  LabContent,
  ProgressPush,
  ShownFinding,
  StepProgress,
} from '../protocol.ts'

/** Raw HTML in a text is shown as text. */
const markdown = new MarkdownIt({ html: false, linkify: false })
// A table that is wider than a narrow page is scrolled in a box of its own, also by keyboard.
markdown.renderer.rules.table_open = () =>
  '<div class="wide" role="region" aria-label="Table" tabindex="0"><table>\n'
markdown.renderer.rules.table_close = () => '</table></div>\n'

/** Languages of fences that a learner types into a shell. */
const TYPED = /^bash\b/

const ASKED = /^\*\*(Predict|Question|Recall)\.\*\*\s*([^?]*\?)/

/** What is asked at a blockquote that begins so; undefined if the blockquote is only text. */
type FindAsked = (what: AskBlock['what'], ask: string) => AskBlock | undefined

/**
 * A Markdown text as rendered parts, fences, and the places at which it asks; what is inside of
 * lists belongs to the rendered part.
 */
function blocksOf(text: string, findAsked: FindAsked = () => undefined): Block[] {
  const tokens = markdown.parse(text, {})
  const blocks: Block[] = []
  let from = 0
  const flush = (to: number) => {
    const html = markdown.renderer.render(tokens.slice(from, to), markdown.options, {})
    if (html.trim() !== '') blocks.push({ kind: 'html', html })
    from = to + 1
  }
  for (const [index, token] of tokens.entries()) {
    if (token.level > 0) continue
    if (token.type === 'blockquote_open') {
      const end = tokens.findIndex(
        ({ type, level }, at) => at > index && type === 'blockquote_close' && level === 0,
      )
      const asked = askedIn(tokens.slice(index, end), findAsked)
      if (!asked) continue
      flush(index)
      blocks.push(asked)
      from = end + 1
    }
    if (token.type === 'fence') {
      flush(index)
      blocks.push(fenceBlock(token))
    }
  }
  flush(tokens.length)
  return blocks
}

/** What a blockquote asks; undefined if it is only text. */
function askedIn(blockquote: readonly Token[], findAsked: FindAsked): AskBlock | undefined {
  const [, word = '', ask = ''] = ASKED.exec(textOf(blockquote)) ?? []
  return word === '' ? undefined : findAsked(word.toLowerCase() as AskBlock['what'], ask)
}

function fenceBlock({ info, content }: Token): Block {
  const language = info.split(/\s+/)[0] ?? ''
  const text = content.trimEnd()
  // A placeholder is for the learner to complete: `make answer … A='…'`.
  return { kind: 'fence', language, text, run: TYPED.test(info) && !text.includes("='…'") }
}

const textOf = (tokens: readonly Token[]): string =>
  tokens
    .map(({ type, content }) => (type === 'inline' ? content.replaceAll('\n', ' ') : ''))
    .join(' ')
    .trim()

/** What a step asks, for the places in its text. */
const askedBy =
  ({ id, predict, question }: Pick<StepDefinition, 'id' | 'predict' | 'question'>): FindAsked =>
  (what) => {
    const asked = { predict, question, recall: undefined }[what]
    return asked && { kind: 'ask', what, id, ...asked }
  }

/** What was learnt from an answer, or what is wrong with it, for the learner. */
export function answerLines(outcome: StepOutcome | undefined): string[] {
  if (!outcome?.failure || outcome.verdict !== 'failed') return learningLines(outcome?.learning)
  const { actual, why, hint } = outcome.failure
  // The command that follows a hint elsewhere is a field of the page.
  const lines = [actual, why, hint?.replace(/:$/, '.')]
  return lines.flatMap((line) => (line === undefined ? [] : [plainText(line)]))
}

/**
 * In the paragraph about the guide in the terminal: the sentences about what the page has buttons
 * for.
 */
const TERMINAL = /`make (lab|check|hint|answer|solve)\b/
/** Commands that the page has controls for, in the words of the page. */
const CONTROLS: readonly [command: RegExp, control: string][] = [
  [/`make reset-\d+`/, '*Reset*'],
  [
    /`make incident`\s+starts a random incident, with\s+`SEED=7`/,
    '*Start an incident*, in the tab *Incident*, starts a random one, with the seed 7',
  ],
  [/`make incident HINT=1`/, '*Hint* in that tab'],
  [/`make hint`/, '*Hint* beside a step'],
]
const PAGE =
  'This page checks each step while you work. *Run* types the commands of the text into the terminal beside it; answers are given where the text asks. *Check*, *Hint* and *Reset* are buttons, and what you type yourself counts as much.'

/** What the text says about the terminal's guide, in the words of the page. */
const inPage = (intro: string): string =>
  intro
    .split('\n\n')
    .map((paragraph) => {
      if (!/`make lab-\d+`\s+guides\s+you/.test(paragraph)) return paragraph
      const own = paragraph.split(/(?<=[.?!])\s+/).filter((sentence) => !TERMINAL.test(sentence))
      return [...own, PAGE].join(' ')
    })
    .map((paragraph) =>
      CONTROLS.reduce((text, [command, control]) => text.replace(command, control), paragraph),
    )
    .join('\n\n')

/**
 * A text that names another step by the number that the page's list of steps shows, not by its id.
 */
const withNumbers = (text: string, steps: readonly { definition: StepDefinition }[]): string =>
  text.replace(/\bstep(\s+)`([\w-]+)`/g, (named, space: string, id: string) => {
    const index = steps.findIndex(({ definition }) => definition.id === id)
    return index === -1 ? named : `step${space}${index + 1}`
  })

/** The constant content of a lab, in the learner's names. `places` are those of terminals. */
export function labContent({ definition, intro, steps }: GuideLab, places: string[]): LabContent {
  return {
    number: definition.number,
    title: definition.title,
    intro: blocksOf(withNumbers(inPage(intro), steps), (what, ask) => {
      const recall = definition.recall?.find((one) => one.ask === ask)
      return what === 'recall' && recall
        ? { kind: 'ask', what, id: recall.id, ask, choices: recall.choices, many: false }
        : undefined
    }),
    steps: steps.map(({ definition: step, task, seen, onward, hints }) => ({
      id: step.id,
      title: step.title,
      points: step.points,
      why: step.why,
      task: blocksOf(withNumbers(task, steps), askedBy(step)),
      seen: blocksOf(withNumbers(seen, steps), askedBy(step)),
      onward: blocksOf(withNumbers(onward ?? '', steps), askedBy(step)),
      hints: hints.length,
      question: step.question?.ask,
    })),
    labs: listLabs().map(({ number }) => {
      const { title, minutes } = readLab(number)
      return { number, title, minutes }
    }),
    places,
  }
}

/** The parts of the push that are not in the progress. */
type Circumstances = Pick<ProgressPush, 'labs' | 'minutes' | 'paused' | 'busy' | 'trouble' | 'asOf'>

/** The push about a learner's progress. `kept`: what steps gave when they passed first. */
export function progressPush(
  progress: LabProgress,
  kept: KeptPoints,
  circumstances: Circumstances,
): ProgressPush {
  const { lab, place, summary } = progress
  const { points, of } = pointsOf(progress)
  const steps = lab.steps.map((step) => stepProgress(progress, step, kept))
  return {
    at: place === 'step' ? shownStepId(progress) : place,
    points,
    of,
    kept: Math.max(
      points,
      steps.reduce((sum, step) => sum + step.kept, 0),
    ),
    steps,
    summary: place === 'end' ? blocksOf(summary) : undefined,
    ...circumstances,
  }
}

function stepProgress(
  progress: LabProgress,
  { definition: step, hints: texts }: GuideLab['steps'][number],
  kept: KeptPoints,
): StepProgress {
  const { alreadyPassed, hints } = progress
  const outcome = outcomeOf(progress, step.id)
  const { verdict, reason, waitsFor, measured, failure, unanswered } = outcome ?? {}
  const points = verdict === 'passed' ? pointsWith(step.points, outcome) : 0
  return {
    id: step.id,
    points,
    kept: verdict === 'passed' ? points : (kept.get(step.id) ?? 0),
    alreadyPassed: alreadyPassed.has(step.id),
    unsent: outcome?.unsent === true && !isDone(outcome),
    hints: texts.slice(0, hints.get(step.id) ?? 0),
    verdict,
    // The field in the text asks already: the finding would repeat the question and offer Run for
    // `make answer … A='…'`.
    finding: failure && !unanswered ? findingFor(step, failure) : undefined,
    reason: unanswered ? undefined : reason,
    waitsFor,
    measured,
    unanswered,
    predicted: outcome?.learning?.prediction?.text,
    answered: outcome?.learning?.answered !== undefined || outcome?.learning?.gaveUp === true,
    gaveUp: outcome?.learning?.gaveUp === true,
    learnt: learningLines(outcome?.learning),
  }
}

/** A finding as `make check` prints it; instead of naming `make hint`, the page has a button. */
function findingFor(
  step: StepDefinition,
  failure: NonNullable<StepOutcome['failure']>,
): ShownFinding {
  const finding = findingOf(step, failure)
  return { ...finding, differences: differencesOf(finding) }
}

/** The incident whose solution lab 8's text shows. */
const WORKED = 'selector-typo'

type Nodes = readonly NodeHoldings[]

/** The state of the nodes before the fault, with it, and repaired, if this server has read it. */
interface Stages {
  openedAt: string
  healthy?: Nodes
  broken?: Nodes
  repaired?: Nodes
}

export class IncidentView {
  #stages: Stages = { openedAt: '' }

  /** An incident was opened on a cluster whose nodes were in this state. */
  opened(openedAt: string, healthy: Nodes): void {
    this.#stages = { openedAt, healthy }
  }

  /** Adds the current state of the nodes and returns the push. */
  async see(snapshot: Snapshot, nodes: Nodes): Promise<IncidentPush | null> {
    const notes = new LabNotes(INCIDENT_LAB, snapshot)
    const open = await openIncident(notes)
    if (!open) return null
    const { note, incident } = open
    const incidents = await loadIncidents()
    const isClosed = notes.read(CLOSED_KEY, closedNote) !== undefined
    if (this.#stages.openedAt !== note.openedAt) this.#stages = { openedAt: note.openedAt }
    this.#stages[isClosed ? 'repaired' : 'broken'] ??= nodes
    const { healthy, broken, repaired } = this.#stages
    return {
      isWorked: note.isNamed === true && incident.id === WORKED,
      report: note.report,
      choices: note.choices.map((id) => ({
        id,
        cause: incidents.find((one) => one.id === id)?.cause ?? '',
      })),
      hints: incident.hints.slice(0, note.hints),
      hintsLeft: Math.max(0, incident.hints.length - note.hints),
      seed: note.seed,
      debrief: isClosed
        ? {
            before: changesOnNodes(healthy, broken),
            repaired: changesOnNodes(broken, repaired),
            text: blocksOf(incident.debrief),
          }
        : undefined,
    }
  }
}
