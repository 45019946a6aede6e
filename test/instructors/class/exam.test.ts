// The exam of lab 8 on its way from the cluster's notes through a submission into the class report.

import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Capture } from '../../../cluster/capture-folder.ts'
import { classResult, classSummary } from '../../../instructors/class/class-result.ts'
import { csvOf, htmlOf } from '../../../instructors/class/formats/tables.ts'
import { type JudgedFile, judgeFile } from '../../../instructors/class/judge-file.ts'
import { type ClassResult, classSchema } from '../../../instructors/class/result.ts'
import { readSubmission, type Submission } from '../../../instructors/submission/read-submission.ts'
import { changedFile, SOLVED } from '../submission/made-submission.ts'
import { removeWritten } from '../submission/tar-bytes.ts'

afterAll(removeWritten)

const part = (id: string, changes: object = {}) => ({
  id,
  points: 100,
  of: 100,
  seconds: 65,
  hints: 0,
  wrong: 0,
  diagnosed: true,
  repaired: true,
  ...changes,
})
const exam = {
  seed: '2026',
  hard: true,
  sealed: 'secret',
  of: 2,
  startedAt: '2026-11-24T10:00:00.000Z',
  endedAt: '2026-11-24T10:12:05.000Z',
  parts: [
    part('untracked', { points: 85, hints: 3 }),
    part('local-policy', { points: 20, diagnosed: false, repaired: false }),
  ],
}

let source: Submission
beforeAll(async () => {
  source = await readSubmission(join(SOLVED, 'lab-8-embedded.labgrade'))
})

/** Writes the exam's note into a capture of lab 8. */
function noteExam(capture: Capture, note: object | undefined): void {
  for (const item of capture.objects.items as {
    kind?: string
    metadata?: { name?: string }
    data?: Record<string, string>
  }[])
    if (item.kind === 'ConfigMap' && item.metadata?.name === 'lab-8') {
      const { exam: _none, ...data } = item.data ?? {}
      item.data = note ? { ...data, exam: JSON.stringify(note) } : data
    }
}

async function handedIn(
  learner: string,
  noteOf: (capture: string) => object | undefined,
): Promise<JudgedFile> {
  const edit = (capture: Capture, id: string) => noteExam(capture, noteOf(id))
  return judgeFile(await changedFile(learner, { source, edit }, `${learner}-lab8.labgrade`))
}

const examOf = (judged: JudgedFile) => ('graded' in judged ? judged.graded.exam : 'refused')

test('a submission holds the exam as it was when it was handed in, without the incidents to come', async () => {
  const { final } = source.manifest
  const earlier = { ...exam, endedAt: undefined, parts: exam.parts.slice(0, 1) }
  const judged = await handedIn('ann', (id) => (id === final ? exam : earlier))
  const { sealed: _sealed, ...known } = exam
  expect(examOf(judged)).toEqual({ ...known, points: 105, maxPoints: 200 })
})

test('a submission from before there was an exam is read as one without it', async () => {
  expect(examOf(await handedIn('bea', () => undefined))).toBeUndefined()
})

test.each([
  ['more points than an incident has', { parts: [part('untracked', { points: 5000 })] }],
  ['points below zero', { parts: [part('untracked', { points: -1 })] }],
  ['more incidents than an exam', { parts: Array.from({ length: 11 }, () => part('untracked')) }],
  ['a time that is none', { startedAt: 'yesterday' }],
])('a note with %s is no exam', async (_what, change) => {
  expect(examOf(await handedIn('carl', () => ({ ...exam, ...change })))).toBeUndefined()
})

test('the class report has each result and the incidents that were not solved', async () => {
  const half = { ...exam, hard: false, endedAt: undefined, parts: [part('local-policy')] }
  const judged = [await handedIn('ann', () => exam), await handedIn('dora', () => half)]
  const result: ClassResult = classResult(judged, 1)
  classSchema.parse(result)
  const summary = classSummary(result)
  expect(summary).toContain(
    'seed 2026, 105/200 points, 2 incidents, without a list of causes, 2 min 10 s',
  )
  expect(summary).toContain('seed 2026, 100/100 points, 1 of 2 incidents handed in')
  expect(summary).toContain('local-policy not solved by 1 of 2')
  expect(summary).not.toContain('untracked not solved')
  const html = htmlOf(result)
  expect(html).toContain('<h3>The exam</h3>')
  expect(html).toContain('not solved by 1 of 2')
  expect(html).toContain('solved by all 1')
  const row = csvOf(result)
    .split('\r\n')
    .find((line) => line.startsWith('ann,8') && line.includes(',exam,exam,105,200,'))
  expect(row).toContain('local-policy')
  expect(JSON.stringify(result)).not.toContain('secret')
})

test('a class without an exam has no section for it', async () => {
  const result = classResult([await handedIn('eve', () => undefined)], 1)
  expect(classSummary(result) + htmlOf(result) + csvOf(result)).not.toMatch(/exam/i)
})
