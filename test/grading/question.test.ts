import { describe, expect, test } from 'vitest'
import type { LabSpec } from '../../grading/check-context.ts'
import { fail } from '../../grading/failure.ts'
import { judgeRound } from '../../grading/judge.ts'
import { LabNotes } from '../../grading/lab-notes.ts'
import { learnerReport } from '../../grading/learner-report.ts'
import { type AnswerNote, answerKey } from '../../grading/learning-notes.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { noteOfAnswer, questionCheck } from '../../grading/question.ts'
import { reportOf } from '../../grading/report.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import type { Manifest } from '../../instructors/submission/manifest.ts'
import { readAnswers } from '../../instructors/submission/pack.ts'
import { rejudge } from '../../instructors/submission/rejudge.ts'
import { emptySnapshot, fakeLab, madeStep } from './fake-lab.ts'
import { madeLiveCluster } from './made-live-cluster.ts'

const QUESTION = 'Which colour has the cluster?'
const asked = { ask: QUESTION, choices: [], many: false }
const at = '2026-11-21T10:00:00.000Z'
const note = (text: string): AnswerNote => ({ text, at })

/** A lab that asks for the colour, which is an object of the cluster. */
function asking(): LabSpec {
  const check = questionCheck(
    { lab: 99, step: madeStep({ id: 'colour', question: asked }), understanding: 2 },
    ({ snapshot }) => {
      const colour = snapshot.find('Colour', '', 'it')?.data?.is
      const inspect = 'kubectl get colour it'
      return colour === undefined
        ? fail({ inspect, expected: 'a colour', actual: 'none' })
        : { accepts: [colour], inspect }
    },
  )
  return fakeLab({ colour: { check, question: asked, onlyAsks: true, moment: true } })
}

const cluster = (colour: string, notes: Record<string, unknown> = {}) => {
  const data = Object.fromEntries(
    Object.entries(notes).map(([key, value]) => [key, JSON.stringify(value)]),
  )
  return emptySnapshot([
    { kind: 'Colour', metadata: { name: 'it' }, data: { is: colour } },
    { kind: 'ConfigMap', metadata: { name: 'lab-99', namespace: 'default' }, data },
  ])
}

/** A live cluster whose notes can be read back. */
function liveCluster() {
  const written: Record<string, string> = {}
  const core = {
    patchNamespacedConfigMap: async ({ body }: { body: { data: Record<string, string> } }) =>
      Object.assign(written, body.data),
  }
  return { written, live: madeLiveCluster({ core }) }
}

const judged = async (snapshot: Snapshot, live?: LiveCluster) =>
  (await judgeRound(asking(), snapshot, live))[0]

describe('a question', () => {
  test('fails without an answer and with a wrong one, and does not disclose the answer', async () => {
    for (const notes of [{}, { 'answer.colour': note('red') }, { 'answer.other': note('teal') }]) {
      const outcome = await judged(cluster('teal', notes), liveCluster().live)
      expect(outcome?.verdict).toBe('failed')
      expect(outcome?.failure?.inspect).toBe('kubectl get colour it')
      expect(JSON.stringify(outcome)).not.toContain('teal')
    }
  })

  test('shows the given answer, the question and the command', async () => {
    const spec = asking()
    const outcomes = await judgeRound(
      spec,
      cluster('teal', { 'answer.colour': note('red') }),
      undefined,
    )
    const request = { lab: 99, source: { kind: 'capture', folder: 'x' } } as const
    const report = reportOf(spec.lab, request, outcomes, { seconds: 0 })
    expect(report.steps[0]?.question).toBe(QUESTION)
    expect(learnerReport(report)).toMatch(
      /asks: Which colour has the cluster\?[\s\S]*found .*"red"[\s\S]*make answer LAB=99 Q=colour A=/,
    )
  })

  test('passes with the correct answer, and remains passed when the cluster changes', async () => {
    const { live, written } = liveCluster()
    const first = await judged(cluster('teal', { 'answer.colour': note(' "Teal" ') }), live)
    expect(first?.verdict).toBe('passed')
    expect(written).toEqual({ 'answered.colour': JSON.stringify(note(' "Teal" ')) })
    const moved = { 'answer.colour': note('teal'), 'answered.colour': note('teal') }
    expect((await judged(cluster('red', moved), live))?.verdict).toBe('passed')
    // A later wrong answer takes nothing away.
    expect(
      (await judged(cluster('red', { ...moved, 'answer.colour': note('x') }), live))?.verdict,
    ).toBe('passed')
  })

  test('reports a later wrong answer, which costs no points', async () => {
    const { live } = liveCluster()
    const later = (text: string) =>
      judged(cluster('0.25', { 'answered.colour': note('1/4'), 'answer.colour': note(text) }), live)
    const wrong = await later('banana')
    expect(wrong?.verdict).toBe('passed')
    expect(wrong?.measured).toEqual([
      'Your last answer is "banana", which is not a number such as 0.2, 20% or 1/5. The earlier "1/4" was right and keeps its points.',
    ])
    expect((await later('0.26'))?.measured?.[0]).toContain(
      '"0.26", which is not right on this cluster now',
    )
    for (const right of ['0,25', '25 %', '1/4'])
      expect((await later(right))?.measured).toBeUndefined()
  })

  test.each([
    ['2', 'banana', 'a whole number'],
    ['0.25', 'banana', 'a number such as'],
    ['10.96.0.1', '12', 'an address such as'],
    ['KUBE-SVC-A', '12', 'a name that begins with KUBE-'],
  ])('with the answer %s reports the expected form for %s', async (truth, input, form) => {
    const { failure } = (await judged(cluster(truth, { 'answer.colour': note(input) }))) ?? {}
    expect(failure?.expected).toContain(form)
    expect(failure?.actual).toContain(`"${input}", which is not ${form}`)
    expect(JSON.stringify(failure)).not.toContain(truth)
  })

  test.each([
    ['of another shape', { text: 5, at }],
    ['of several lines', note('red\nteal')],
    ['that is very long', note(`teal${' '.repeat(100_000)}x`)],
    ['with control characters', note('\u001b[31mteal')],
  ])('ignores a stored answer %s', async (_what, kept) => {
    const outcome = await judged(cluster('teal', { 'answer.colour': kept }))
    expect([outcome?.verdict, outcome?.failure?.actual]).toEqual(['failed', 'no answer yet'])
  })

  test('judges the answer in a capture by the capture, even if it is marked as correct', async () => {
    const forged = { 'answered.colour': note('red'), 'answer.colour': note('red') }
    expect((await judged(cluster('teal', forged)))?.verdict).toBe('not applicable')
  })

  test("refuses text that can't be an answer", () => {
    expect(() => noteOfAnswer(asked, 'a\nb')).toThrow('one line')
    expect(noteOfAnswer(asked, ' x ', new Date(at))).toEqual(note('x'))
    expect(answerKey('colour')).toBe('answer.colour')
  })
})

describe('a submission', () => {
  const verdictOn = async (captures: Record<string, Snapshot>, own?: string) => {
    const steps: Manifest['steps'] = [
      { id: 'colour', verdict: 'passed', ...(own === undefined ? {} : { capture: own }) },
    ]
    const [outcome] = await rejudge(asking(), { steps, final: 'final' }, (id = '') => captures[id])
    return outcome?.verdict
  }
  const right = { 'answer.colour': note('teal') }
  const kept = { ...right, 'answered.colour': note('teal') }

  test('is judged by the capture of the moment when the step passed', async () => {
    const captures = { colour: cluster('teal', right), final: cluster('red', kept) }
    expect(await verdictOn(captures, 'colour')).toBe('passed')
  })

  test.each<[string, Record<string, Snapshot>, string | undefined]>([
    ['only says that it was right', { final: cluster('red', kept) }, undefined],
    [
      'was wrong at its moment',
      { colour: cluster('red', kept), final: cluster('red', kept) },
      'colour',
    ],
    ['gave no answer', { final: cluster('teal') }, undefined],
  ])('that %s gives no points', async (_what, captures, own) => {
    expect(['failed', 'not yet']).toContain(await verdictOn(captures, own))
  })

  test('lists the answers of its own lab for the instructor', () => {
    const items = [
      {
        kind: 'ConfigMap',
        metadata: { name: 'lab-9', namespace: 'default' },
        data: { 'answer.x': JSON.stringify(note('nine')) },
      },
      ...cluster('teal', { ...kept, seen: 3 }).items,
    ]
    expect(readAnswers(items, 99)).toEqual([{ question: 'colour', answer: 'teal' }])
    expect(readAnswers(items, 9)).toEqual([{ question: 'x', answer: 'nine' }])
  })
})

test('only new notes are written, so that concurrent writers do not overwrite each other', async () => {
  const { live, written } = liveCluster()
  const notes = new LabNotes(99, cluster('teal', { seen: 1 }))
  notes.keep('news', 2)
  written['answer.colour'] = 'of another terminal'
  await notes.save(live.client)
  expect(written).toEqual({ news: '2', 'answer.colour': 'of another terminal' })
})
