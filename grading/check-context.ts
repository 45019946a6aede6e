import * as z from 'zod'
import { Failure, NotApplicable } from './failure.ts'
import type { LabDefinition, StepDefinition } from './lab-definition.ts'
import type { LabNotes } from './lab-notes.ts'
import type { LiveCluster } from './live-cluster.ts'
import type { NodeView, Snapshot } from './snapshot.ts'

/** The input of a check. Everything except `live` is one snapshot, the same for every step of a round. */
export interface CheckContext {
  snapshot: Snapshot
  nodes: readonly NodeView[]
  notes: LabNotes
  /** For real requests; absent when a capture is judged. */
  live: LiveCluster | undefined
  /** Adds lines of measured values (bars of shares, times) to the report, for any verdict. */
  show(lines: readonly string[]): void
}

/** The input of a check of real requests, which is only possible on a running cluster. */
export interface LiveContext extends CheckContext {
  live: LiveCluster
}

/** Returns if the step passed. Otherwise throws Failure, NotApplicable or Trouble; any other error counts as Trouble. */
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

/** The check of a step about an earlier moment: with a valid note it passed, also in a capture. `prove` returns the note. */
export const onceNoted =
  <Note>(note: string, shape: z.ZodType<Note>, prove: (context: CheckContext) => Promise<Note> | Note): Check =>
  async (context) => {
    if (context.notes.read(note, shape)) return
    context.notes.keep(note, await prove(context))
  }

/** What a proof keeps. */
const proofNote = z.looseObject({})

/**
 * The check of a step about a temporary state. Once it passed on the live cluster it remains passed; a capture is always judged, and is
 * not applicable if it was recorded at another moment.
 * @param prove throws as a check does, and returns what to keep in the cluster's notes
 */
export const onceSeen =
  <Context extends CheckContext>(note: string, prove: (context: Context) => Promise<object>): Check<Context> =>
  async (context) => {
    const { live, notes } = context
    if (live && notes.read(note, proofNote)) return
    try {
      notes.keep(note, await prove(context))
    } catch (error) {
      if (live || !(error instanceof Failure)) throw error
      throw new NotApplicable(`this capture was taken at another moment (${error.message}: ${error.detail.inspect})`)
    }
  }
