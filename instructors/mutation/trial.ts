import type { EquivalentMutants } from './equivalent-mutants.ts'
import type { GoodCapture } from './good-captures.ts'
import { reasonToIgnore } from './harmless-changes.ts'
import type { Mutation } from './mutation.ts'
import { notesAlone } from './notes-alone.ts'
import { noticed } from './noticed.ts'
import { sameProgram } from './same-program.ts'

/** What became of one mutation. */
export interface Trial {
  good: GoodCapture
  mutation: Mutation
  /**
   * `caught` by a step that names the place; `elsewhere`: a step fails, but none says where; `harmless`: no step fails, and a
   * reason is known; `missed`: no step fails and no reason is known.
   */
  end: 'caught' | 'elsewhere' | 'harmless' | 'missed'
  /** The steps that failed. */
  steps: string[]
  reason?: string
}

/** Judges a mutated capture by the steps that pass on the good one. */
export async function tryMutation(
  good: GoodCapture,
  mutation: Mutation,
  equivalentMutants: EquivalentMutants,
): Promise<Trial> {
  const { steps, about } = await noticed(good, mutation)
  if (about) return { good, mutation, end: 'caught', steps }
  if (steps.length > 0) return { good, mutation, end: 'elsewhere', steps }
  const reason =
    reasonToIgnore(good, mutation) ??
    sameProgram(good, mutation) ??
    (await notesAlone(good, mutation)) ??
    (await equivalentMutants.reason(good, mutation))
  return reason === undefined
    ? { good, mutation, end: 'missed', steps }
    : { good, mutation, end: 'harmless', steps, reason }
}
