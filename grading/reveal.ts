// `make answer … SHOW=1`: what a step asks is answered for a learner who gives up.

import type { LabSpec } from './check-context.ts'
import type { StepOutcome } from './failure.ts'
import { contextOf, judgeRound } from './judge.ts'
import { LabNotes } from './lab-notes.ts'
import type { SnapshotSource } from './live-cluster.ts'
import type { Truth } from './question.ts'

/** What really happens at a step; its answers are known once its state holds. */
export interface Revealed {
  predict?: Truth
  question?: Truth
}

/**
 * Computes the answers of a step. Returns the outcome instead if the step's state does not hold:
 * there is nothing to see yet. Throws what the step's questions throw.
 */
export async function revealStep(
  spec: LabSpec,
  id: string,
  source: SnapshotSource,
): Promise<Revealed | StepOutcome> {
  const snapshot = await source.snapshot()
  const step = spec.steps.find((candidate) => candidate.id === id)
  if (!step) throw new Error(`Lab ${spec.lab.number} has no step "${id}".`)
  if (!step.onlyAsks) {
    const [outcome] = await judgeRound(spec, snapshot, source.live, [id], false)
    if (outcome && outcome.verdict !== 'passed') return outcome
  }
  const context = contextOf(snapshot, new LabNotes(spec.lab.number, snapshot), source.live)
  const { predict, question } = step.asked
  return {
    ...(predict && { predict: await predict(context) }),
    ...(question && { question: await question(context) }),
  }
}
