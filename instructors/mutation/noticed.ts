import { DIAGNOSIS } from '../../course/incident/incident-note.ts'
import { INCIDENT_LAB } from '../../course/incident/shop.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { judgeRound } from '../../grading/judge.ts'
import { notesName, notesOf } from '../../grading/lab-notes.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import type { GoodCapture } from './good-captures.ts'
import type { Mutation } from './mutation.ts'

const REASON =
  'The passing steps judge only the lab’s notes: they also pass on a cluster without node state and without other objects.'

/** Whether the passing steps are about the lab’s notes: a run that was measured elsewhere, the id of a cause. */
const isAboutNotes = ({ spec: { lab }, passing }: GoodCapture): boolean =>
  lab.number === SCALE_LAB || (lab.number === INCIDENT_LAB && passing.every((step) => step === DIAGNOSIS))
const SCALE_LAB = 6

const proven = new WeakMap<GoodCapture['capture'], Promise<boolean>>()

/**
 * Proves that changes of nodes and of other objects are harmless on a capture whose steps judge only the lab notes, as in lab
 * 6, whose run was measured on another node. The proof judges the notes without the rest of the capture; a step that needs
 * more than its notes fails there.
 */
export async function notesAlone(good: GoodCapture, { place }: Mutation): Promise<string | undefined> {
  if (!isAboutNotes(good) || place === notesPlace(good.spec.lab.number)) return undefined
  const known = proven.get(good.capture) ?? passesByNotesAlone(good)
  proven.set(good.capture, known)
  return (await known) ? REASON : undefined
}

export const notesPlace = (lab: number) => `ConfigMap ${notesName(lab)}`

async function passesByNotesAlone({ spec, capture, passing }: GoodCapture): Promise<boolean> {
  const notes = notesOf(capture.objects.items, spec.lab.number)
  const items = notes ? [notes] : []
  const nodes = capture.nodes.map(({ name }) => ({ name, files: new Map<string, string>() }))
  const bare = { objects: { ...capture.objects, items }, nodes }
  const outcomes = await judgeRound(spec, new Snapshot(bare), undefined, passing)
  return outcomes.every(({ verdict }) => verdict === 'passed')
}

/** The verdicts after a mutation of the steps that pass on the good capture. */
interface Notice {
  /** The steps that no longer pass. */
  steps: string[]
  /** One of them names the mutated node and the changed place. */
  about: boolean
}

/** Judges a mutated capture by the steps that pass on the good one. */
export async function noticed(good: GoodCapture, mutation: Mutation): Promise<Notice> {
  const snapshot = new Snapshot(mutation.apply(good.capture), good.snapshot)
  const outcomes = await judgeRound(good.spec, snapshot, undefined, good.passing)
  const open = outcomes.filter(({ verdict }) => verdict === 'failed' || verdict === 'not applicable')
  return { steps: open.map(({ id }) => id), about: open.some((outcome) => isAbout(outcome, mutation)) }
}

/** A step about a moment does not fail on a capture that does not show it: it is not applicable, with a reason. */
function isAbout({ verdict, reason = '', failure }: StepOutcome, { node, words }: Mutation): boolean {
  if (verdict === 'not applicable') return words.some((word) => reason.includes(word))
  if (!failure || (node !== undefined && failure.node !== node)) return false
  const { inspect, expected, actual, differences } = failure
  const said = JSON.stringify([inspect, expected, actual, differences])
  return words.some((word) => said.includes(word))
}
