import { expect, test } from 'vitest'
import {
  applyCheck,
  forgetSteps,
  type GuideLab,
  pointsOf,
  reopened,
  showStep,
  startProgress,
} from '../../course/lab-progress.ts'
import { readLab } from '../../grading/lab-definition.ts'

const definition = readLab(8)
const lab: GuideLab = {
  definition,
  intro: '',
  outro: '',
  card: '',
  steps: definition.steps.map((step) => ({
    definition: step,
    task: '',
    seen: '',
    hints: [],
    solution: [],
  })),
}
const ids = definition.steps.map(({ id }) => id)

test('the next incident begins without what the previous one has earned, and other steps keep it', () => {
  const earned = ids.reduce(
    (progress, id) => applyCheck(progress, { id, verdict: 'passed' }),
    startProgress(lab, undefined, new Map()),
  )
  expect(pointsOf(earned).points).toBe(100)
  const [kept = '', ...forgotten] = ids
  const next = forgetSteps(earned, forgotten)
  expect(pointsOf(next).points).toBe(definition.steps[0]?.points)
  expect([...next.outcomes.keys()]).toEqual([kept])
  expect(pointsOf(forgetSteps(earned, [])).points).toBe(100)
})

test('the step in view stays seen when its incident is opened', () => {
  const begun = showStep(startProgress(lab, undefined, new Map()), 0)
  const [inView = ''] = ids
  expect(forgetSteps(begun, ids)).toMatchObject({ shown: new Set([inView]), place: 'step' })
  expect(forgetSteps({ ...begun, place: 'intro' }, ids).shown).toEqual(new Set())
})

test('the end stays shown when the lab is opened again, but not on a new cluster', () => {
  const note = { at: ids.at(-1) ?? '', workedMs: 0, shown: ids, held: [], passed: ids }
  const begun = startProgress(lab, note, new Map())
  const atEnd = { ...begun, place: 'end' as const, summary: 'All of it.' }
  expect(reopened(atEnd, begun)).toMatchObject({ place: 'end', summary: 'All of it.' })
  expect(reopened(begun, begun).place).toBe('step')
  expect(reopened(atEnd, startProgress(lab, undefined, new Map())).place).toBe('intro')
})
