import type { LabDefinition, StepDefinition } from './lab-definition.ts'
import type { LabNotes } from './lab-notes.ts'
import type { LiveCluster } from './live-cluster.ts'
import type { NodeView, Snapshot } from './snapshot.ts'

/** What a check is given. Everything but `live` is one snapshot, the same for every step of a round. */
export interface CheckContext {
  snapshot: Snapshot
  nodes: readonly NodeView[]
  notes: LabNotes
  /** For real requests; absent when a capture is judged. */
  live: LiveCluster | undefined
  /** Says what this step measured, in lines for people: shares as bars, times. The report shows them, passed or not. */
  show(lines: readonly string[]): void
}

/** Returns when the step holds; throws Failure, NotApplicable or Trouble (or anything else, which is trouble) otherwise. */
export type Check = (context: CheckContext) => void | Promise<void>

/** Looks on at every round of a live cluster, before the steps: takes notes of moments. It judges nothing. */
export type Observer = (context: CheckContext) => void

/** A lab with its checks, ready to be judged. */
export interface LabSpec {
  lab: LabDefinition
  checks: ReadonlyMap<string, CheckEntry>
  observers: readonly Observer[]
}

export interface CheckEntry {
  definition: StepDefinition
  check: Check
  /** The step sends real requests, which no capture can answer. */
  needsCluster: boolean
}
