// A check of a state beside which the step predicts, asks and wants evidence of the learner's own
// work.

import * as z from 'zod'
import { describeChoices } from './asked-text.ts'
import type { Check, CheckContext, Question, StepQuestions } from './check-context.ts'
import { Failure, fail, NotApplicable } from './failure.ts'
import { notesName } from './lab-notes.ts'
import { evidenceKey, learningOf, truthKey } from './learning-notes.ts'
import {
  type AskedStep,
  answerCommand,
  expectRightAnswer,
  isAccepted,
  misconception,
  throwUnanswered,
  usable,
} from './question.ts'

const evidenceNote = z.looseObject({})

/**
 * The check of a step with a state: passes when the state holds, the prediction was given (right or
 * wrong), the learner's own work was seen, and the question was answered right, or all of it was
 * given up. Where no learner worked on the lab, only the state is judged.
 */
export function askingCheck(
  asking: AskedStep,
  check: Check,
  { predict, question, evidence }: StepQuestions,
): Check {
  return async (context) => {
    await check(context)
    if (!context.asks) return
    const { gaveUp } = learningOf(asking.step.id, context.notes)
    if (predict && !gaveUp) expectPrediction(asking, context)
    if (evidence) await expectEvidence(asking, evidence, context)
    if (predict) await comparePrediction(asking, predict, context)
    if (question) await expectRightAnswer(asking, question, context, throwUnanswered('answer'))
  }
}

function expectPrediction(
  { lab, step: { id, predict } }: AskedStep,
  { notes }: CheckContext,
): void {
  if (!predict || learningOf(id, notes).prediction) return
  const choices = describeChoices(predict)
  throwUnanswered('prediction')({
    inspect: answerCommand(lab, id),
    expected: `your prediction: ${predict.ask}${choices && ` ${choices}`}`,
    actual: 'none yet; a wrong one costs nothing',
    hint: 'Predict, then compare with what the nodes show:',
    next: answerCommand(lab, id),
  })
}

/**
 * What was seen once stays proven. Only a running cluster can show it: a capture has the note, or
 * no proof.
 */
async function expectEvidence(
  { lab, step: { id } }: AskedStep,
  evidence: NonNullable<StepQuestions['evidence']>,
  context: CheckContext,
): Promise<void> {
  const { notes, live } = context
  if (notes.read(evidenceKey(id), evidenceNote)) return
  if (!live)
    fail({
      inspect: `kubectl get configmap ${notesName(lab)} -o yaml`,
      expected: `the note "${evidenceKey(id)}" about requests of your own, as \`make check-${lab}\` keeps it`,
      actual: 'none: they were not seen while the cluster ran',
    })
  notes.keep(evidenceKey(id), await evidence({ ...context, live }))
}

/**
 * Keeps what the nodes show beside the first prediction. If that can no longer be seen, the
 * prediction stays without it.
 */
async function comparePrediction(
  { step }: AskedStep,
  ask: Question,
  context: CheckContext,
): Promise<void> {
  const { id, predict, moment } = step
  const { notes } = context
  const { prediction } = learningOf(id, notes)
  if (!predict || !prediction || prediction.accepts) return
  try {
    const truth = await ask(context)
    const { accepts, because } = truth
    const text = usable(predict, prediction) ?? ''
    const right = text !== '' && isAccepted(predict, text, accepts)
    const mistake = right ? undefined : misconception(predict, truth, text)
    notes.keep(truthKey(id), {
      accepts,
      right,
      ...(mistake !== undefined && { mistake }),
      ...(because !== undefined && { because }),
    })
  } catch (error) {
    const isOver = error instanceof NotApplicable || (moment && error instanceof Failure)
    if (!isOver) throw error
  }
}
