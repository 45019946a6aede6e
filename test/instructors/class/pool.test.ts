import { afterAll, describe, expect, test } from 'vitest'
import { timeoutScale } from '../../../host/wait.ts'
import type { JudgedFile } from '../../../instructors/class/judge-file.ts'
import { judgeAll } from '../../../instructors/class/judge-pool.ts'
import { ALICE_POINTS, changedFile } from '../submission/made-submission.ts'
import { fileOf, removeWritten } from '../submission/tar-bytes.ts'

afterAll(removeWritten)

const stubborn = 'test/instructors/class/stubborn-worker.ts'
const outputOf = (judged: JudgedFile | undefined) =>
  judged && 'refused' in judged ? judged.refused : 'graded'

describe('a task that never ends', () => {
  test('is given up after its deadline, its thread is replaced, and no other task waits for it', async () => {
    const files = ['a', 'loop', 'b', 'loop', 'c'].map((file) => ({ file }))
    const began = performance.now()
    const order: string[] = []
    const judged = await judgeAll(files, {
      program: stubborn,
      jobs: 2,
      deadlineMs: 1500,
      onJudged: ({ file }) => order.push(file),
    })
    expect(judged.map(outputOf)).toEqual([
      'It is a.',
      expect.stringMatching(/not judged in [\d.]+ s/),
      'It is b.',
      expect.stringMatching(/not judged/),
      'It is c.',
    ])
    expect(order[0]).toBe('a')
    expect(order).toHaveLength(5)
    expect(performance.now() - began).toBeLessThan(20_000 * timeoutScale())
  })

  test('too much memory, or an error of the thread, is reported for that task only', async () => {
    const judged = await judgeAll([{ file: 'eat' }, { file: 'throw' }, { file: 'b' }], {
      program: stubborn,
      jobs: 1,
      deadlineMs: 20_000,
      memoryMb: 48,
    })
    expect(judged.map(outputOf)).toEqual([
      expect.stringContaining('48 MB of memory'),
      'The grader could not judge it (broken).',
      'It is b.',
    ])
  })
})

test('real files in threads: results in the order of the files', async () => {
  const files = [await changedFile('alice'), fileOf(Buffer.from('x')), await changedFile('bob')]
  const judged = await judgeAll(
    files.map((file) => ({ file })),
    { jobs: 2 },
  )
  expect(
    judged.map((one) => ('graded' in one ? [one.graded.learner, one.graded.score] : one.refused)),
  ).toEqual([
    ['alice', ALICE_POINTS],
    expect.stringMatching(/not a gzip|truncated/),
    ['bob', ALICE_POINTS],
  ])
})
