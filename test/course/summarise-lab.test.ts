import { expect, test } from 'vitest'
import type { GuideLab } from '../../course/lab-progress.ts'
import { summariseLab } from '../../course/summarise-lab.ts'
import { readLab } from '../../grading/lab-definition.ts'
import type { StepReport } from '../../grading/report-schema.ts'

const definition = readLab(2)
const ids = definition.steps.map(({ id }) => id)
const lab: GuideLab = { definition, intro: '', outro: '', card: '', steps: [] }
const steps = definition.steps.map(({ id, title, points }): StepReport => {
  const verdict = id === 'sets' ? 'failed' : 'passed'
  return { id, title, points, maxPoints: points, verdict, claims: [] }
})
const work = {
  progress: {
    lab,
    shown: new Set(ids.filter((id) => id !== 'tools')),
    alreadyPassed: new Set(['web']),
    hints: new Map([['flush', 2]]),
  },
  report: { steps, score: 95, maxScore: 100 },
  uncounted: ['conntrack'],
  minutes: 1,
}
/** `Step 8, TITLE` */
const named = (id: string) =>
  `Step ${ids.indexOf(id) + 1}, ${definition.steps.find((step) => step.id === id)?.title}`

test('on the page the end names each step by the number and title of its list of steps, and no id', () => {
  const summary = summariseLab(work, 'page')
  const items = summary.split('\n').filter((line) => line.startsWith('- '))
  expect(items).toEqual([
    `- ${named('sets')}`,
    `- ${named('flush')}: 2`,
    `- ${named('web')}`,
    `- ${named('tools')}`,
    `- ${named('conntrack')}`,
  ])
  expect(summary).not.toMatch(/\bconntrack\.|`make (lab|hint|check|submit)/)
  expect(summary).toContain('Read on: choose lab 3')
})

test('in the terminal it names them by id, as STEP= takes them', () => {
  const summary = summariseLab(work, 'terminal')
  for (const line of [
    'Still open (choose one in the list of steps): sets.',
    'Time: 1 minute.',
    'Hints: flush 2.',
    'Held already when you came to them: web.',
    'Passed unseen: tools.',
    'without the steps that real requests prove: conntrack.',
  ])
    expect(summary).toContain(line)
})

test('of nothing it says so', () => {
  const progress = {
    ...work.progress,
    shown: new Set(ids),
    alreadyPassed: new Set([]),
    hints: new Map(),
  }
  const passed = steps.map((step): StepReport => ({ ...step, verdict: 'passed' }))
  const report = { steps: passed, score: 100, maxScore: 100 }
  const summary = summariseLab({ ...work, progress, report, uncounted: [] }, 'page')
  expect(summary).toContain('## Lab 2: done')
  expect(summary).toContain('Hints: none.')
  expect(summary).toContain('Passed unseen: none.')
  expect(summary).not.toContain('- Step')
})
