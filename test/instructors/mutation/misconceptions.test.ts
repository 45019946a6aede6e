// What a wrong answer teaches: each choice that is not right on a recorded cluster has its
// misconception, and each open question has one.

import { expect, test } from 'vitest'
import type { Truth } from '../../../grading/check-context.ts'
import { Failure } from '../../../grading/failure.ts'
import { truthOn } from '../../../instructors/mutation/answer-trials.ts'
import { type GoodCapture, goodCaptures } from '../../../instructors/mutation/good-captures.ts'

/** The answers that nothing is said about. */
function unexplained({ accepts, wrong = [] }: Truth, choices: readonly string[], many: boolean) {
  const isExplained = (answer: string) =>
    wrong.some(({ when }) => (typeof when === 'string' ? when === answer : when(answer)))
  if (many || choices.length === 0) return wrong.length === 0 ? ['any'] : []
  return choices.filter((choice) => !accepts.includes(choice) && !isExplained(choice))
}

const unlessFailure = (error: unknown): undefined => {
  if (!(error instanceof Failure)) throw error
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
      // Some predictions need the notes of a step that was never played there.
      const truth = await truthOn(good, ask).catch(unlessFailure)
      if (!truth || truth.accepts.length === 0) continue
      asked.add(name)
      for (const answer of unexplained(truth, written.choices, written.many))
        left.add(`${name}: ${answer}`)
    }
  expect([...left]).toEqual([])
  expect(asked.size).toBeGreaterThanOrEqual(131)
})
