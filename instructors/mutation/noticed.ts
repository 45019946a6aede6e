import type { StepOutcome } from '../../grading/failure.ts'
import { judgeRound } from '../../grading/judge.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import type { GoodCapture } from './good-captures.ts'
import type { Mutation } from './mutation.ts'

/** What the steps that pass on a good capture say after a mutation. */
export interface Notice {
  /** The steps that no longer pass. */
  steps: string[]
  /** One of them is on the mutated node and names the place that was changed. */
  about: boolean
}

/** Judges a mutated capture by the steps that pass on the good one. */
export async function noticed(good: GoodCapture, mutation: Mutation): Promise<Notice> {
  const snapshot = new Snapshot(mutation.apply(good.capture), unbroken(good))
  const outcomes = await judgeRound(good.spec, snapshot, undefined, good.passing)
  const open = outcomes.filter(({ verdict }) => verdict === 'failed' || verdict === 'not applicable')
  return { steps: open.map(({ id }) => id), about: open.some((outcome) => isAbout(outcome, mutation)) }
}

const snapshots = new WeakMap<GoodCapture['capture'], Snapshot>()

/** What the nodes that a mutation leaves alone hold is read and predicted once. */
function unbroken({ capture }: GoodCapture): Snapshot {
  const snapshot = snapshots.get(capture) ?? new Snapshot(capture)
  snapshots.set(capture, snapshot)
  return snapshot
}

/** A step about a moment does not fail on a capture that does not show it: it is not earned, for a reason that it gives. */
function isAbout({ verdict, reason = '', failure }: StepOutcome, { node, words }: Mutation): boolean {
  if (verdict === 'not applicable') return words.some((word) => reason.includes(word))
  if (!failure || (node !== undefined && failure.node !== node)) return false
  const { look, expected, actual, differences } = failure
  const said = JSON.stringify([look, expected, actual, differences])
  return words.some((word) => said.includes(word))
}
