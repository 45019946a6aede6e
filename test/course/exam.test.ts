// The exam of lab 8 without a cluster: its draw, its length and its result.

import { stripVTControlCharacters } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { drawExam, examLength } from '../../course/incident/exam.ts'
import { type Exam, type ExamPart, examSeconds } from '../../course/incident/exam-note.ts'
import {
  describePart,
  examResult,
  handedInLines,
  partLines,
  stepsToRead,
} from '../../course/incident/exam-report.ts'
import { incidents } from '../../labs/08-incidents/incidents/all.ts'
import { keyFacts } from '../../labs/08-incidents/incidents/key-facts.ts'

const seeds = fc.string({ minLength: 1, maxLength: 12 })
const ids = (seed: string, length: number) =>
  drawExam(incidents, keyFacts, seed, length).map(({ id }) => id)

test('the same seed draws the same incidents, each once, and a longer exam begins with those of a shorter one', () => {
  fc.assert(
    fc.property(seeds, fc.integer({ min: 1, max: 10 }), (seed, length) => {
      const drawn = ids(seed, length)
      expect(drawn).toEqual(ids(seed, length))
      expect(new Set(drawn).size).toBe(length)
      expect(ids(seed, 10).slice(0, length)).toEqual(drawn)
    }),
  )
})

test('three incidents need three labs, and every incident is drawn by some seed', () => {
  const seen = new Set<string>()
  for (let seed = 0; seed < 200; seed++) {
    const drawn = ids(String(seed), 3)
    const labs = drawn.map((id) => keyFacts[id]?.reads[0]?.split('/')[0])
    expect(new Set(labs).size).toBe(3)
    for (const id of ids(String(seed), 10)) seen.add(id)
  }
  expect(seen.size).toBe(incidents.length)
})

test.each(['0', '11', '-1', '3.5', 'three', '1e1'])(
  'an exam of %s incidents is refused',
  (text) => {
    expect(() => examLength(text)).toThrow(/from 1 to 10/)
  },
)

test('an exam has three incidents unless it is told', () => {
  expect([examLength(undefined), examLength(''), examLength('5')]).toEqual([3, 3, 5])
})

const part = (id: string, changes: Partial<ExamPart> = {}): ExamPart => ({
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

describe('the result', () => {
  const exam = (...parts: ExamPart[]): Exam => ({
    seed: '7',
    hard: true,
    sealed: '',
    of: parts.length,
    parts,
    startedAt: '2026-11-24T10:00:00.000Z',
    endedAt: '2026-11-24T10:12:05.000Z',
  })
  const lines = (...parts: ExamPart[]) =>
    examResult(exam(...parts), keyFacts).map(stripVTControlCharacters)

  test('counts the time of its incidents, and not that in which the machine prepared them', () => {
    const open = { parts: [part('weight-zero')], openedAt: '2026-11-24T10:12:05.000Z' }
    expect(examSeconds(open, Date.parse('2026-11-24T10:13:05.000Z'))).toBe(125)
    expect(examSeconds({ parts: open.parts })).toBe(65)
  })

  test('has the time, every incident, the sum, and how the same exam is begun again', () => {
    const text = lines(part('weight-zero', { points: 85, hints: 2, wrong: 1 }), part('untracked'))
    expect(text[0]).toBe('Exam, seed 7, 2 incidents, without a list of causes: 2 min 10 s')
    expect(text[1]).toContain('85/100  1 min 5 s  (2 hints, 1 wrong diagnosis)')
    expect(text[3]).toMatch(/together +185\/200 +93%/)
    expect(text.at(-2)).toContain('make exam SEED=7 N=2 HARD=1')
  })

  test('sends to the labs of incidents that did not earn everything, and to no others', () => {
    const text = lines(
      part('own-firewall', { points: 0, diagnosed: false, repaired: false }),
      part('untracked'),
    ).join('\n')
    expect(text).toMatch(/Read again:\n {2}lab 5, step \d+: /)
    expect(text).not.toContain('lab 1, step')
    expect(describePart(part('own-firewall', { diagnosed: false, repaired: false }))).toContain(
      '(cause not named, not repaired)',
    )
    expect(lines(part('untracked')).join()).toContain('Nothing to read again')
  })

  test.each([60, 80])('fits a terminal of %i columns, whole words', (columns) => {
    const flaws = { diagnosed: false, repaired: false, hints: 2, wrong: 3, seconds: 725 }
    const worst = incidents.map(({ id }) => part(id, { ...flaws, points: 0 }))
    const parts = worst.slice(0, 10)
    const known = (one: ExamPart) => incidents.find(({ id }) => id === one.id)
    const shown = [
      ...examResult(exam(...parts), keyFacts, columns),
      ...partLines(parts, columns),
      ...worst.flatMap((one) => handedInLines(one, known(one), columns)),
    ].flatMap((line) => stripVTControlCharacters(line).split('\n'))
    expect(shown.filter((line) => line.length > columns)).toEqual([])
    for (const { debrief } of incidents)
      expect(shown.join(' ').replace(/\s+/g, ' ')).toContain(debrief.replace(/\s+/g, ' '))
  })

  test('names each step once', () => {
    const places = stepsToRead(
      [part('local-policy', { points: 5 }), part('internal-policy', { points: 5 })],
      keyFacts,
    )
    expect(new Set(places).size).toBe(places.length)
    expect(places.length).toBe(2)
  })
})
