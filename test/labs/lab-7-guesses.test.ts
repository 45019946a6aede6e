// The questions of lab 7 that choose from a list cannot be guessed: each wrong try costs a third,
// on the recorded solved cluster.

import { beforeAll, expect, test } from 'vitest'
import { judgeRound } from '../../grading/judge.ts'
import { notesOf } from '../../grading/lab-notes.ts'
import {
  answeredKey,
  answerKey,
  guessableAnswers,
  wrongTryKey,
} from '../../grading/learning-notes.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { type GoodCapture, goodCaptures } from '../../instructors/mutation/good-captures.ts'

const LAB = 7
let goods: GoodCapture[]

beforeAll(async () => {
  goods = (await goodCaptures()).filter(({ spec }) => spec.lab.number === LAB)
})

/** Judges a step after an answer and earlier wrong tries. */
async function judgedAfter(good: GoodCapture, step: string, answer: string, tries: string[]) {
  const note = JSON.stringify({ text: answer, at: '2026-01-01T00:00:00.000Z' })
  const items = good.capture.objects.items.map((item) => {
    const notes = notesOf([item], LAB)
    if (!notes) return item
    const kept = Object.entries(notes.data ?? {}).filter(([key]) => key !== answeredKey(step))
    const tried = tries.map((text) => [wrongTryKey(step, text), JSON.stringify({ text })])
    return { ...notes, data: Object.fromEntries([...kept, ...tried, [answerKey(step), note]]) }
  })
  const snapshot = new Snapshot({ ...good.capture, objects: { ...good.capture.objects, items } })
  return (await judgeRound(good.spec, snapshot, undefined, [step], true))[0]
}

test.each([
  ['choose-scheduler', 'ipvs-lc', ['ipvs-rr', 'ipvs-sh', 'iptables'], 3],
  ['choose-default', 'iptables', ['ipvs', 'nftables', 'userspace'], 1],
])('%s: three wrong tries cost all of its points', async (id, right, wrong, points) => {
  const good = goods.find(({ passing }) => passing.includes(id))
  if (!good) throw new Error(`no recorded cluster passes ${id}`)
  for (const count of [0, 1, 2, 3]) {
    const outcome = await judgedAfter(good, id, right, wrong.slice(0, count))
    expect(outcome?.verdict).toBe('passed')
    expect(outcome?.cost ?? 0).toBe(Math.round((points * count) / 3))
  }
  const failed = await judgedAfter(good, id, wrong[0] ?? '', [])
  expect(failed?.verdict).toBe('failed')
  expect(failed?.failure?.hint).toContain(`of this step's ${points} points for understanding`)
})

test('every question of the lab with a list of answers costs guesses, and no other does', () => {
  const steps = goods[0]?.spec.lab.steps.filter(({ question }) => question) ?? []
  const guessed = steps.filter((step) => guessableAnswers(step) !== undefined)
  expect(guessed.map(({ id }) => id)).toEqual(['choose-scheduler', 'choose-here', 'choose-default'])
  for (const { question } of steps)
    if (question && question.choices.length > 0)
      expect(question.choices.length).toBeLessThanOrEqual(6)
})
