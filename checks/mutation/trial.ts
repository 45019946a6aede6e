import { judgeRound, type StepOutcome } from '../judge.ts'
import { Snapshot } from '../snapshot.ts'
import type { GoodCapture } from './good-captures.ts'
import { reasonToIgnore } from './indifferent.ts'
import type { Mutation } from './mutation.ts'

/** What became of one mutation. */
export interface Trial {
  good: GoodCapture
  mutation: Mutation
  /**
   * `caught` by a step that names the place; `elsewhere`: a step fails, but none says where; `indifferent`: no step fails, and a
   * reason is known; `missed`: no step fails and no reason is known.
   */
  end: 'caught' | 'elsewhere' | 'indifferent' | 'missed'
  /** The steps that failed. */
  steps: string[]
  reason?: string
}

/** Judges a mutated capture by the steps that pass on the good one. */
export async function tryMutation(good: GoodCapture, mutation: Mutation): Promise<Trial> {
  const outcomes = await judgeRound(good.spec, new Snapshot(mutation.apply(good.capture)), undefined, good.passing)
  const failed = outcomes.filter(({ verdict }) => verdict === 'failed')
  const steps = failed.map(({ id }) => id)
  if (failed.some((outcome) => isAbout(outcome, mutation))) return { good, mutation, end: 'caught', steps }
  const reason = reasonToIgnore(good, mutation)
  if (failed.length > 0) return { good, mutation, end: 'elsewhere', steps }
  return reason === undefined
    ? { good, mutation, end: 'missed', steps }
    : { good, mutation, end: 'indifferent', steps, reason }
}

/** The finding is on the mutated node and names the place that was changed. */
function isAbout({ failure }: StepOutcome, { node, words }: Mutation): boolean {
  if (!failure) return false
  if (node !== undefined && failure.node !== node) return false
  const { look, expected, actual, differences } = failure
  const said = JSON.stringify([look, expected, actual, differences])
  return words.some((word) => said.includes(word))
}
