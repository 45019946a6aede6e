import * as z from 'zod'
import { Failure, NotApplicable, PastMoment } from './failure.ts'
import type { LabDefinition, StepDefinition } from './lab-definition.ts'
import type { LabNotes } from './lab-notes.ts'
import type { LiveCluster } from './live-cluster.ts'
import type { NodeView, Snapshot } from './snapshot.ts'

/**
 * The input of a check. Everything except `live` is one snapshot, the same for every step of a
 * round.
 */
export interface CheckContext {
  snapshot: Snapshot
  nodes: readonly NodeView[]
  notes: LabNotes
  /** For real requests; absent when a capture is judged. */
  live: LiveCluster | undefined
  /**
   * False if predictions and questions beside a state are not asked: no learner worked on the lab
   * where this capture was taken.
   */
  asks: boolean
  /** Adds lines of measured values (bars of shares, times) to the report, for any verdict. */
  show(lines: readonly string[]): void
}

/** The correct answer for the current state of the cluster. */
export interface Truth {
  /** All accepted answers; for a subset of choices one string, its names separated by ", ". */
  accepts: readonly string[]
  /** A read-only command to find it. */
  inspect: string
  /**
   * Typical wrong answers: the misconception behind each in one or two sentences, and where to
   * look.
   */
  wrong?: readonly WrongAnswer[]
  /**
   * What really happens and why: shown with a right answer, and beside a prediction once the state
   * holds.
   */
  because?: string
}

/** A typical wrong answer, as text or by a predicate on the answer in its normal form. */
export interface WrongAnswer {
  when: string | ((answer: string) => boolean)
  because: string
}

/**
 * Computes the correct answer from the snapshot. Throws Failure, NotApplicable or Trouble like a
 * check.
 */
export type Question = (context: CheckContext) => Truth | Promise<Truth>

/**
 * Proves the learner's own work on a running cluster, and returns what is kept of it in the lab's
 * notes; of a capture, these notes are the proof. Throws like a check.
 */
export type EvidenceCheck = (context: LiveContext) => object | Promise<object>

/** What is asked beside the state of a step. */
export interface StepQuestions {
  predict?: Question
  question?: Question
  evidence?: EvidenceCheck
}

/** The input of a check of real requests, which is only possible on a running cluster. */
export interface LiveContext extends CheckContext {
  live: LiveCluster
}

/**
 * Returns if the step passed. Otherwise throws Failure, NotApplicable or Trouble; any other error
 * counts as Trouble.
 */
export type Check<Context = CheckContext> = (context: Context) => unknown

/** Runs in every round on a live cluster, before the steps, and records moments in the notes. */
export type Observer = (context: CheckContext) => void

/** A lab with its checks, ready to be judged. */
export interface LabSpec {
  lab: LabDefinition
  /** Those of the lab, in its order. */
  steps: readonly CheckedStep[]
  observers: readonly Observer[]
}

/** A step and how it is judged. */
export interface CheckedStep extends StepDefinition {
  check: Check
  /** It has no state of its own to judge: its check is a question. */
  onlyAsks: boolean
  /** Those of its points that its prediction and question earn. */
  understanding: number
  /** How the truth of its prediction and of its question is computed. */
  asked: StepQuestions
  /** It sends real requests, which is not possible for a capture. */
  needsCluster: boolean
  /** The number of points deducted if the step passes, for example for hints. */
  cost?: ((context: CheckContext) => number) | undefined
}

/** The check of a step that consists of real requests. */
export const onCluster =
  (check: Check<LiveContext>): Check =>
  (context) => {
    const { live } = context
    if (!live) throw new NotApplicable('it sends real requests, which a capture cannot answer')
    return check({ ...context, live })
  }

/**
 * The check of a step about an earlier moment: with a valid note it passed, also in a capture.
 * `prove` returns the note.
 */
export const onceNoted =
  <Note>(
    note: string,
    shape: z.ZodType<Note>,
    prove: (context: CheckContext) => Promise<Note> | Note,
  ): Check =>
  async (context) => {
    if (context.notes.read(note, shape)) return
    context.notes.keep(note, await prove(context))
  }

/** What a proof keeps, and since version 0.2 when. */
const proofNote = z.looseObject({ seenAt: z.string().optional() })

const seenBefore = (at: string | undefined): string =>
  `It was seen ${at === undefined ? 'before' : `at ${at.slice(0, 19)}Z`}; what the nodes hold now is not judged here.`

/**
 * The check of a step about a temporary state. Once it passed on the live cluster it remains
 * passed; a capture is always judged, and is not applicable if it was recorded at another moment.
 * @param prove throws as a check does, and returns what to keep in the cluster's notes
 */
export const onceSeen =
  <Context extends CheckContext>(
    note: string,
    prove: (context: Context) => Promise<object>,
  ): Check<Context> =>
  async (context) => {
    const { live, notes, show } = context
    const proof = live && notes.read(note, proofNote)
    if (proof) return show([seenBefore(proof.seenAt)])
    try {
      notes.keep(note, { ...(await prove(context)), seenAt: new Date().toISOString() })
    } catch (error) {
      if (live || !(error instanceof Failure)) throw error
      throw new PastMoment(
        `this capture was taken at another moment (${error.message}: ${error.detail.inspect})`,
      )
    }
  }
