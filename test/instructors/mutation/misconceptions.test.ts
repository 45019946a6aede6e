// What a wrong answer teaches: each choice that is not right on a recorded cluster has its misconception, and each open question has one.

import { expect, test } from 'vitest'
import type { Question, Truth } from '../../../grading/check-context.ts'
import { Failure, NotApplicable } from '../../../grading/failure.ts'
import { contextOf } from '../../../grading/judge.ts'
import { LabNotes } from '../../../grading/lab-notes.ts'
import { type GoodCapture, goodCaptures } from '../../../instructors/mutation/good-captures.ts'

/** The right answer on a capture; undefined where the capture does not show it. */
async function truthOn({ snapshot, spec }: GoodCapture, ask: Question): Promise<Truth | undefined> {
  const notes = new LabNotes(spec.lab.number, snapshot)
  try {
    const truth = await ask(contextOf(snapshot, notes, undefined, true))
    return truth.accepts.length === 0 ? undefined : truth
  } catch (error) {
    if (error instanceof NotApplicable || error instanceof Failure) return undefined
    throw error
  }
}

/** The answers that nothing is said about. */
function unexplained({ accepts, wrong = [] }: Truth, choices: readonly string[], many: boolean) {
  const isExplained = (answer: string) =>
    wrong.some(({ when }) => (typeof when === 'string' ? when === answer : when(answer)))
  if (many || choices.length === 0) return wrong.length === 0 ? ['any'] : []
  return choices.filter((choice) => !accepts.includes(choice) && !isExplained(choice))
}

/** The questions of a capture's steps that pass on it, each with what it asks. */
const questionsOf = (good: GoodCapture) =>
  good.spec.steps
    .filter(({ id }) => good.passing.includes(id))
    .flatMap((step) =>
      (['predict', 'question'] as const).flatMap((kind) => {
        const [written, ask] = [step[kind], step.asked[kind]]
        // Only a running kube-proxy reports what the question of own-sync asks for.
        if (!written || !ask || (step.id === 'own-sync' && kind === 'question')) return []
        return [{ name: `lab ${good.spec.lab.number}, ${step.id}, ${kind}`, written, ask }]
      }),
    )

test('every typical wrong answer of a prediction or question is explained', async () => {
  const left = new Set<string>()
  const asked = new Set<string>()
  for (const good of (await goodCaptures()).filter(({ asks }) => asks))
    for (const { name, written, ask } of questionsOf(good)) {
      const truth = await truthOn(good, ask)
      if (!truth) continue
      asked.add(name)
      for (const answer of unexplained(truth, written.choices, written.many))
        left.add(`${name}: ${answer}`)
    }
  expect([...left]).toEqual([])
  expect(asked.size).toBeGreaterThanOrEqual(131)
})
