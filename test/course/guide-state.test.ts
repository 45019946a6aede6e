import { describe, expect, test } from 'vitest'
import { stepStatusLine } from '../../course/guide/guide-blocks.ts'
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

/** Applies lines and events, and collects the effects. */
function play(
  state: GuideState,
  ...events: (string | GuideEvent)[]
): { state: GuideState; effects: GuideEffect[] } {
  const effects: GuideEffect[] = []
  let now = state
  for (const event of events) {
    const [next, requested] = advance(
      now,
      typeof event === 'string' ? { type: 'line', text: event } : event,
    )
    now = next
    effects.push(...requested)
  }
  return { state: now, effects }
}
const start = (note?: GuideNote, of = lab) => startGuide(startProgress(of, note, new Map()))
const begun = () => play(start(), '').state
const kindsOf = (effects: readonly GuideEffect[]) => effects.map((effect) => effect.do)
const blocksOf = (effects: readonly GuideEffect[]) =>
  effects.flatMap((effect) => (effect.do === 'print' ? [effect.block] : []))
const printed = (effects: readonly GuideEffect[]) =>
  blocksOf(effects).flatMap(({ title = '', markdown = '', parts = [] }) => [
    title,
    markdown,
    ...parts.map(({ label = '', text }) => `${label}${text}`),
  ])

describe('every step is shown', () => {
  test('even if all of them pass', () => {
    const all = observed(...definition.steps.map(({ id }) => passed(id)))
    let state = begun()
    const titles: string[] = []
    for (const _step of definition.steps) {
      const look = play(state, all).state
      titles.push(stepStatusLine(look).text)
      expect(look).toMatchObject({ place: 'step', isExplained: false })
      state = play(look, '').state
      expect(state.isExplained).toBe(true)
      state = play(state, '').state
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
    const { state, effects } = play(
      begun(),
      observed(failed(first)),
      observed(passed(first)),
      observed(passed(first), passed(second)),
    )
    expect(state).toMatchObject({ at: 0, isExplained: false })
    expect(stepStatusLine(state).text).toMatch(/^passed, \d+ points/)
    expect(printed(effects)).toContain('Also passed: step 2.')
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
    const sent = play(begun(), observed(unsent(first)), '')
    expect(sent.effects).toContainEqual({ do: 'check', step: first })
    const proved = play(
      sent.state,
      { type: 'checked', outcome: passed(first) },
      observed(unsent(first)),
    )
    expect(proved.state.isExplained).toBe(true)
    expect(stepStatusLine(proved.state).text).toMatch(/^passed/)
  })

  test('prints why a step failed, and checks it again', () => {
    const { state, effects } = play(begun(), observed(failed(first)), '', {
      type: 'checked',
      outcome: failed(first),
    })
    expect(printed(effects)).toEqual(
      expect.arrayContaining(['nodeworker', 'expectedtwo', 'foundnone']),
    )
    expect(play(state, '').effects).toContainEqual({ do: 'check', step: first })
  })

  test('does nothing while the nodes are being checked', () => {
    const { state } = play(begun(), observed(failed(first)), 'c')
    expect(play(state, '', 'b', 'h').state).toEqual(state)
    expect(kindsOf(play(state, 'q').effects)).toEqual(['save', 'quit'])
  })
})

test('b goes back from the explanation to the task, and then to the previous step', () => {
  const { state } = play(begun(), observed(passed(first)), '', '')
  expect(state).toMatchObject({ at: 1, isExplained: false })
  expect(play(state, 'b').state).toMatchObject({ at: 0, isExplained: false })
  expect(play(state, observed(passed(second)), '', 'b').state).toMatchObject({
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
  test('is counted only after the second h', () => {
    const price = play(begun(), 'h')
    expect(printed(price.effects).at(-1)).toMatch(/costs no points/)
    expect(kindsOf(price.effects)).not.toContain('hint')
    const taken = play(price.state, 'h')
    expect(taken.effects).toContainEqual({ do: 'hint', step: first, tier: 1 })
    expect(printed(taken.effects).join('\n')).toContain(definition.steps[0]?.hints[0])
    expect(kindsOf(play(price.state, 'd', 'h').effects)).not.toContain('hint')
  })

  test('is repeated if it was the last one', () => {
    const tiers = definition.steps[0]?.hints.length ?? 0
    const { effects } = play({ ...begun(), hints: new Map([[first, tiers]]) }, 'h', 'h')
    expect(printed(effects).at(-1)).toMatch(/last hint/)
    expect(kindsOf(effects)).not.toContain('hint')
  })
})

test('s prints the solution, and s again runs it', () => {
  const shown = play(begun(), 's')
  expect(printed(shown.effects)).toContain('make it')
  expect(kindsOf(shown.effects)).toEqual(['print'])
  expect(play(shown.state, 's').effects).toEqual([{ do: 'play', step: first }])
  expect(kindsOf(play(shown.state, 'h', 's').effects)).not.toContain('play')
})

test('l lists the steps; a number selects one, also without the list', () => {
  const listed = play(begun(), observed(passed(first)), 'l')
  expect(printed(listed.effects).join('\n')).toContain('✓')
  expect(play(listed.state, '12').state).toMatchObject({ at: 11, isExplained: false })
  expect(play(begun(), '12').state).toMatchObject({ at: 11 })
  expect(printed(play(begun(), 'l', '99').effects).join('\n')).toMatch(/no step 99/)
  expect(play(begun(), 'l', '').state).not.toHaveProperty('asks')
})

describe('a step that predicts and asks', () => {
  const asked = { ask: 'Which one is it?', choices: ['rr', 'wrr'], many: false }
  const asks: GuideLab = {
    ...lab,
    steps: lab.steps.map((step) => ({
      ...step,
      task: '## Look\n\n```bash\nmake ipvs\n```',
      definition: { ...step.definition, predict: asked, question: asked },
    })),
  }
  const learning = (text?: string) => ({
    wrongTries: 0,
    gaveUp: false,
    ...(text !== undefined && { prediction: { text, at: '' } }),
  })
  const open = observed({ ...failed(first), learning: learning() })
  const predicted = observed({
    ...failed(first),
    learning: learning('rr'),
  })
  const missing = observed({
    ...failed(first),
    unanswered: 'answer',
    learning: learning('rr'),
  })
  const at = (event: GuideEvent) => play(start(undefined, asks), '', event).state
  const submits = (text: string) => ({ do: 'answer', step: first, text })

  test('says so in its text and its status', () => {
    expect(printed(play(start(undefined, asks), '').effects).join('\n')).toContain(
      '**Predict first:** Which one is it? `rr` · `wrr`',
    )
    expect(stepStatusLine(at(open)).text).toMatch(/Type your prediction here/)
    expect(stepStatusLine(at(predicted)).text).not.toMatch(/Type your/)
    expect(stepStatusLine(at(missing)).text).toMatch(/your answer is missing. Type your answer/)
  })

  test('takes the line for the prediction, then for the answer, but letters for commands', () => {
    expect(play(at(open), 'rr').effects).toContainEqual(submits('rr'))
    expect(play(at(open), '2').effects).toContainEqual(submits('2'))
    expect(play(at(missing), 'rr').effects).toContainEqual(submits('rr'))
    expect(kindsOf(play(at(open), 'h').effects)).toEqual(['print'])
    expect(kindsOf(play(at(predicted), 'rr').effects)).toEqual(['print'])
  })

  test('a makes any line the answer; q is an ordinary letter then', () => {
    expect(play(at(predicted), 'a', 'q').effects).toContainEqual(submits('q'))
    expect(play(at(predicted), 'a rr').effects).toContainEqual(submits('rr'))
    expect(play(at(predicted), 'a', '').state).not.toHaveProperty('asks')
    expect(printed(play(begun(), 'a').effects)).toContain('This step has no question.')
  })

  test('does not take a pasted command of its text for an answer', () => {
    const { effects } = play(at(open), 'make ipvs')
    expect(kindsOf(effects)).toEqual(['print'])
    expect(printed(effects).join('\n')).toMatch(/command of the text/)
  })

  test('a kept prediction is not told what else is open', () => {
    const outcome = { ...failed(first), learning: learning('rr') }
    const { effects } = play(at(open), 'rr', { type: 'predicted', outcome })
    expect(printed(effects).join('\n')).toMatch(/prediction is kept/)
    expect(printed(effects).join('\n')).not.toContain('expected')
  })
})

test('the lab ends with its summary, and Enter quits', () => {
  const { state, effects } = play(begun(), {
    type: 'finished',
    summary: '## Done',
  })
  expect(state.place).toBe('end')
  expect(printed(effects)).toContain('## Done')
  expect(kindsOf(play(state, '').effects)).toEqual(['quit'])
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

test('another incident begins without what the previous one has earned, whose requests would count for it', () => {
  const incident = readLab(8)
  const of: GuideLab = {
    ...lab,
    definition: incident,
    steps: incident.steps.map((step) => ({
      definition: step,
      task: `## ${step.id}`,
      seen: '**What you saw.** It.',
      hints: step.hints,
      solution: [],
    })),
  }
  const ids = incident.steps.map(({ id }) => id)
  const repaired = play(
    start(undefined, of),
    '',
    observed(...ids.map(unsent)),
    ...ids.map((id): GuideEvent => ({ type: 'checked', outcome: passed(id) })),
  ).state
  const next: GuideEvent = { type: 'observed', outcomes: ids.map(unsent) }
  expect(pointsOf(play(repaired, next).state)).toMatchObject({ points: 100, steps: ids.length })
  const { state, effects } = play(repaired, { ...next, begunAgain: ids })
  expect(pointsOf(state)).toMatchObject({ points: 0, steps: 0 })
  expect(state.isExplained).toBe(false)
  expect(printed(effects).join('\n')).toContain('Another incident was opened')
  expect(kindsOf(effects)).toContain('save')
  const first = play(start(undefined, of), '', { ...next, begunAgain: ids })
  expect(printed(first.effects).join('\n')).not.toContain('Another incident')
})
