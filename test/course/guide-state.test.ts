import { describe, expect, test } from 'vitest'
import { stepStatusLine } from '../../course/guide/guide-panels.ts'
import {
  advance,
  type GuideEffect,
  type GuideEvent,
  type GuideState,
  startGuide,
} from '../../course/guide/guide-state.ts'
import {
  type GuideLab,
  type GuideNote,
  pointsOf,
  startProgress,
} from '../../course/lab-progress.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { readLab } from '../../grading/lab-definition.ts'

const definition = readLab(2)
const lab: GuideLab = {
  definition,
  intro: 'Begin.',
  outro: '',
  card: '',
  steps: definition.steps.map((step) => ({
    definition: step,
    task: `## ${step.id}`,
    seen: '**What you saw.** It.',
    hints: step.hints,
    solution: ['make it'],
  })),
}
const [first = '', second = ''] = definition.steps.map(({ id }) => id)
const passed = (id: string): StepOutcome => ({ id, verdict: 'passed' })
const failed = (id: string, actual = 'none'): StepOutcome => ({
  id,
  verdict: 'failed',
  failure: { node: 'worker', inspect: 'look', expected: 'two', actual },
})
const unsent = (id: string): StepOutcome => ({
  id,
  verdict: 'not yet',
  unsent: true,
  reason: 'not sent',
})
const observed = (...outcomes: StepOutcome[]): GuideEvent => ({ type: 'observed', outcomes })

/** Applies keys and events, and collects the effects. */
function play(
  state: GuideState,
  ...events: (string | GuideEvent)[]
): { state: GuideState; effects: GuideEffect[] } {
  const effects: GuideEffect[] = []
  let now = state
  for (const event of events) {
    const [next, requested] = advance(
      now,
      typeof event === 'string' ? { type: 'key', key: event } : event,
    )
    now = next
    effects.push(...requested)
  }
  return { state: now, effects }
}
const start = (note?: GuideNote, of = lab) => startGuide(startProgress(of, note, new Map()))
const begun = () => play(start(), 'enter').state
const kindsOf = (effects: readonly GuideEffect[]) => effects.map((effect) => effect.do)

describe('every step is shown', () => {
  test('even if all of them pass', () => {
    const all = observed(...definition.steps.map(({ id }) => passed(id)))
    let state = begun()
    const titles: string[] = []
    for (const _step of definition.steps) {
      const look = play(state, all).state
      titles.push(stepStatusLine(look).text)
      expect(look).toMatchObject({ place: 'step', isExplained: false })
      state = play(look, 'enter').state
      expect(state.isExplained).toBe(true)
      state = play(state, 'enter').state
    }
    expect(titles).toEqual(
      definition.steps.map(({ title }) => `already passed: ${title}. Press Enter to continue.`),
    )
    expect(state.busy).toBe('Grading every step')
    expect(play(state, { type: 'finished', summary: 'Done' }).state).toMatchObject({
      place: 'end',
      summary: 'Done',
    })
  })

  test('and stays until Enter when it passes', () => {
    const { state } = play(
      begun(),
      observed(failed(first)),
      observed(passed(first)),
      observed(passed(first), passed(second)),
    )
    expect(state).toMatchObject({ at: 0, isExplained: false })
    expect(stepStatusLine(state).text).toMatch(/^passed, \d+ points/)
    expect(state.note).toBe('Also passed: step 2.')
  })
})

describe('the live line', () => {
  const line = (...events: GuideEvent[]) => stepStatusLine(play(begun(), ...events).state).text

  test('reports the node, the expected and the actual state, and their changes', () => {
    expect(line(observed(failed(first, 'one')))).toBe('worker: found one; expected two')
    expect(line(observed(failed(first, 'one')), observed(failed(first, 'three')))).toContain(
      'found three',
    )
  })

  test('reports the step that blocks this one, and its failure', () => {
    const state = { ...begun(), at: 1 }
    const waiting: StepOutcome = {
      id: second,
      verdict: 'not yet',
      waitsFor: [first],
      reason: 'waits',
    }
    expect(
      stepStatusLine(play(state, observed(failed(first, 'nothing'), waiting)).state).text,
    ).toBe(`waits for step 1, ${first}: found nothing`)
  })

  test('asks for Enter before requests are sent', () => {
    expect(line(observed(unsent(first)))).toMatch(/press Enter to send the requests/)
  })

  test('shows why the nodes could not be read, until they can be read', () => {
    expect(line({ type: 'trouble', text: 'gone' })).toContain('gone')
    expect(line({ type: 'trouble', text: 'gone' }, observed(passed(first)))).not.toContain('gone')
  })
})

describe('Enter', () => {
  test('sends the requests that a step needs, and shows the explanation when they succeed', () => {
    const sent = play(begun(), observed(unsent(first)), 'enter')
    expect(sent.effects).toContainEqual({ do: 'check', step: first })
    const proved = play(
      sent.state,
      { type: 'checked', outcome: passed(first) },
      observed(unsent(first)),
    )
    expect(proved.state.isExplained).toBe(true)
    expect(stepStatusLine(proved.state).text).toMatch(/^passed/)
  })

  test('shows why a step failed, and closes the panel', () => {
    const { state } = play(begun(), observed(failed(first)), 'enter', {
      type: 'checked',
      outcome: failed(first),
    })
    expect(state.panel?.parts.map(({ text }) => text)).toEqual(
      expect.arrayContaining(['worker', 'two', 'none']),
    )
    expect(play(state, 'enter').state.panel).toBeUndefined()
  })

  test('does nothing while the nodes are being checked', () => {
    const { state } = play(begun(), observed(failed(first)), 'c')
    expect(play(state, 'enter', 'b', 'h').state).toEqual(state)
    expect(kindsOf(play(state, 'q').effects)).toEqual(['save', 'quit'])
  })
})

test('b goes back from the explanation to the task, and then to the previous step', () => {
  const { state } = play(begun(), observed(passed(first)), 'enter', 'enter')
  expect(state).toMatchObject({ at: 1, isExplained: false })
  expect(play(state, 'b').state).toMatchObject({ at: 0, isExplained: false })
  expect(play(state, observed(passed(second)), 'enter', 'b').state).toMatchObject({
    at: 1,
    isExplained: false,
  })
  expect(play(state, 'b', 'b').state.place).toBe('intro')
})

test('n shows the next step although this one is open', () => {
  expect(play(begun(), observed(failed(first)), 'n').state).toMatchObject({
    at: 1,
    isExplained: false,
  })
})

describe('a hint', () => {
  test('is counted only after the second key press', () => {
    const price = play(begun(), 'h')
    expect(price.state.panel?.parts.at(-1)?.text).toMatch(/costs no points/)
    expect(kindsOf(price.effects)).not.toContain('hint')
    const taken = play(price.state, 'h')
    expect(taken.effects).toContainEqual({ do: 'hint', step: first, tier: 1 })
    expect(taken.state.panel?.parts[0]?.text).toBe(definition.steps[0]?.hints[0])
  })

  test('is repeated if it was the last one', () => {
    const tiers = definition.steps[0]?.hints.length ?? 0
    const { state, effects } = play({ ...begun(), hints: new Map([[first, tiers]]) }, 'h', 'h')
    expect(state.panel?.parts.at(-1)?.text).toMatch(/last hint/)
    expect(kindsOf(effects)).not.toContain('hint')
  })
})

test('s shows the solution, and s again runs it', () => {
  const shown = play(begun(), 's')
  expect(shown.state.panel?.parts[0]?.text).toBe('make it')
  expect(shown.effects).toEqual([])
  expect(play(shown.state, 's').effects).toEqual([{ do: 'play', step: first }])
})

test('l lists the steps; a number selects one', () => {
  const { state } = play(begun(), observed(passed(first)), 'l', '1', '2')
  expect(state.panel?.parts[0]?.label).toContain('✓')
  expect(play(state, 'enter').state).toMatchObject({ at: 11, isExplained: false, panel: undefined })
  expect(play(begun(), 'l', '9', '9', 'enter').state.note).toMatch(/no step 99/)
  expect(play(begun(), 'l', 'escape').state.panel).toBeUndefined()
})

test('an answer can be typed, corrected and submitted; q is an ordinary letter', () => {
  const asks: GuideLab = {
    ...lab,
    steps: lab.steps.map((step) => ({
      ...step,
      definition: {
        ...step.definition,
        question: { ask: 'Which one is it?', choices: [], many: false },
      },
    })),
  }
  const state = play(start(undefined, asks), 'enter', 'a', 'q', 'x', 'backspace', '1').state
  expect(state.typed).toBe('q1')
  expect(play(state, 'enter').effects).toContainEqual({ do: 'answer', step: first, text: 'q1' })
  expect(play(state, 'escape').state.typed).toBeUndefined()
  expect(play(begun(), 'a').state.note).toBe('This step has no question.')
})

test('a step that was done here is not called already passed when it is shown again, nor is one after a restart', () => {
  const done = play(begun(), observed(failed(first)), observed(passed(first))).state
  const shownAgain = play(done, 'n', 'b', observed(passed(first))).state
  expect(stepStatusLine(shownAgain).text).toMatch(/^passed, \d+ points/)
  const note = { at: first, workedMs: 5, shown: [first], held: [], passed: [] }
  const resumed = play(start(note), observed(passed(first))).state
  expect(stepStatusLine(resumed).text).toMatch(/^passed, \d+ points/)
})

test('it resumes at the saved step, with the steps that had passed', () => {
  const note = { at: second, workedMs: 5, shown: [first], held: [first], passed: [first] }
  const state = start(note)
  expect(state).toMatchObject({ at: 1, isExplained: false })
  expect([...state.passed]).toEqual([first])
  expect(start({ ...note, at: 'of another version' }).place).toBe('intro')
})

test('help that costs points is not among the points shown', () => {
  const { points } = definition.steps[0] ?? { points: 0 }
  const { state } = play(begun(), observed(failed(first)), observed({ ...passed(first), cost: 1 }))
  expect(pointsOf(state)).toMatchObject({ points: points - 1, steps: 1 })
  expect(stepStatusLine(state).text).toContain(`passed, ${points - 1} points`)
  expect(pointsOf(play(begun(), observed({ ...passed(first), cost: 100 })).state).points).toBe(0)
})
