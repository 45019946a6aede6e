// What pages are told of a lab: its text as blocks, the learner's progress, and the open incident.

import MarkdownIt from 'markdown-it'
import { loadIncidents } from '../../course/incident/incident.ts'
import { CLOSED_KEY, closedNote, INCIDENT_KEY, incidentNote, unseal } from '../../course/incident/incident-note.ts'
import { INCIDENT_LAB } from '../../course/incident/shop.ts'
import { type GuideLab, isDone, type LabProgress, outcomeOf, pointsOf } from '../../course/lab-progress.ts'
import { type Change, changesBetween } from '../../dataplane/view/changes.ts'
import type { NodeHoldings } from '../../dataplane/view/holdings.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { listLabs, readLab, type StepDefinition } from '../../grading/lab-definition.ts'
import { LabNotes } from '../../grading/lab-notes.ts'
import { differencesOf } from '../../grading/learner-report.ts'
import { findingOf, pointsWith } from '../../grading/report.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import type { Block, Finding, IncidentPush, LabContent, ProgressPush, StepProgress } from '../protocol.ts'

/** Raw HTML in a text is shown as text. */
const markdown = new MarkdownIt({ html: false, linkify: false })

/** Languages of fences that a learner types into a shell. */
const TYPED = /^bash\b/

/** A Markdown text as rendered parts and fences; fences inside of lists belong to the rendered part. */
export function blocksOf(text: string): Block[] {
  const tokens = markdown.parse(text, {})
  const blocks: Block[] = []
  let from = 0
  const flush = (to: number) => {
    const html = markdown.renderer.render(tokens.slice(from, to), markdown.options, {})
    if (html.trim() !== '') blocks.push({ kind: 'html', html })
    from = to + 1
  }
  for (const [index, { type, level, info, content }] of tokens.entries()) {
    if (type !== 'fence' || level > 0) continue
    flush(index)
    const language = info.split(/\s+/)[0] ?? ''
    blocks.push({ kind: 'fence', language, text: content.trimEnd(), run: TYPED.test(info) })
  }
  flush(tokens.length)
  return blocks
}

/** The constant content of a lab, in the learner's names. `places` are those of terminals. */
export function labContent({ definition, intro, steps }: GuideLab, places: string[]): LabContent {
  return {
    number: definition.number,
    title: definition.title,
    intro: blocksOf(intro),
    steps: steps.map(({ definition: { id, title, points, question }, task, seen, hints }) => ({
      id,
      title,
      points,
      task: blocksOf(task),
      seen: blocksOf(seen),
      hints: hints.length,
      question,
    })),
    labs: listLabs().map(({ number }) => ({ number, title: readLab(number).title })),
    places,
  }
}

/** The parts of the push that are not in the progress. */
type Circumstances = Pick<ProgressPush, 'at' | 'workedMs' | 'paused' | 'busy' | 'trouble' | 'summary'>

/** The push about a learner's progress. */
export function progressPush(progress: LabProgress, circumstances: Circumstances): ProgressPush {
  const { lab } = progress
  const { points, of } = pointsOf(progress)
  return {
    type: 'progress',
    lab: lab.definition.number,
    points,
    of,
    steps: lab.steps.map(({ definition }) => stepProgress(progress, definition)),
    ...circumstances,
  }
}

function stepProgress(progress: LabProgress, step: StepDefinition): StepProgress {
  const { lab, held, hints } = progress
  const outcome = outcomeOf(progress, step.id)
  const texts = lab.steps.find(({ definition }) => definition.id === step.id)?.hints ?? []
  const { verdict, reason, waitsFor, measured, failure } = outcome ?? {}
  return {
    id: step.id,
    points: outcome?.verdict === 'passed' ? pointsWith(step.points, outcome) : 0,
    held: held.has(step.id),
    unsent: outcome?.unsent === true && !isDone(outcome),
    hints: texts.slice(0, hints.get(step.id) ?? 0),
    verdict,
    finding: failure && findingFor(lab.definition.number, step, failure),
    reason,
    waitsFor,
    measured,
  }
}

/** A finding as `make check` prints it. */
function findingFor(lab: number, step: StepDefinition, failure: NonNullable<StepOutcome['failure']>): Finding {
  const finding = findingOf(step, failure)
  return {
    ...finding,
    differences: differencesOf(finding),
    next: finding.next ?? `make hint LAB=${lab} STEP=${step.id}`,
  }
}

type Nodes = readonly NodeHoldings[]

/** The state of the nodes before the fault, with it, and repaired, if this server has read it. */
interface Stages {
  openedAt: string
  healthy?: Nodes | undefined
  broken?: Nodes
  repaired?: Nodes
}

export class IncidentView {
  #stages: Stages = { openedAt: '' }
  #healthy: Nodes | undefined

  /** Stores the state of the nodes before an incident starts. */
  healthy(nodes: Nodes): void {
    this.#healthy = nodes
  }

  /** Adds the current state of the nodes and returns the push. */
  async see(snapshot: Snapshot, nodes: Nodes): Promise<IncidentPush> {
    const notes = new LabNotes(INCIDENT_LAB, snapshot)
    const note = notes.read(INCIDENT_KEY, incidentNote)
    if (!note) return { type: 'incident' }
    const incidents = await loadIncidents()
    const incident = incidents.find(({ id }) => id === unseal(note.sealed)?.id)
    const isClosed = notes.read(CLOSED_KEY, closedNote) !== undefined
    if (this.#stages.openedAt !== note.openedAt) {
      this.#stages = { openedAt: note.openedAt, healthy: this.#healthy }
      this.#healthy = undefined
    }
    if (!isClosed) this.#stages.broken ??= nodes
    else this.#stages.repaired ??= nodes
    const { healthy, broken, repaired } = this.#stages
    return {
      type: 'incident',
      incident: {
        report: note.report,
        choices: note.choices.map((id) => ({ id, cause: incidents.find((one) => one.id === id)?.cause ?? '' })),
        hints: (incident?.hints ?? []).slice(0, note.hints),
        hintsLeft: Math.max(0, (incident?.hints.length ?? 0) - note.hints),
        seed: note.seed,
        ...(isClosed && incident
          ? {
              debrief: {
                before: changesOf(healthy, broken),
                repaired: changesOf(broken, repaired),
                text: blocksOf(incident.debrief),
              },
            }
          : {}),
      },
    }
  }
}

function changesOf(before: Nodes = [], after: Nodes = []): Change[] {
  return after.flatMap((now) => {
    const was = before.find(({ node }) => node === now.node)
    return was ? changesBetween(was, now) : []
  })
}
