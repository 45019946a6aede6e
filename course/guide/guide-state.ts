// The state machine of the terminal guide: maps a state and an event to the next state and effects.
// Pure functions.

import type { StepOutcome } from '../../grading/failure.ts'
import { measuredLines } from '../../grading/learner-report.ts'
import { learningLines } from '../../grading/learning-lines.ts'
import {
  applyCheck,
  applyObservation,
  forgetSteps,
  isDone,
  type LabProgress,
  outcomeOf,
  shownStep,
  shownStepId,
  showStep,
} from '../lab-progress.ts'
import {
  commandsLine,
  explanationBlock,
  failureParts,
  type GuideBlock,
  type GuideStatus,
  listParts,
  numberOf,
  openQuestion,
  placeTitle,
  solutionParts,
  stepTaskText,
} from './guide-blocks.ts'
import type { Part } from './terminal-text.ts'

export interface GuideState extends GuideStatus {
  /** The explanation of the step was printed after its task. */
  isExplained: boolean
  /** What the next line is taken for, if not for a command. */
  asks?: 'answer' | 'step' | undefined
  /**
   * The letter whose price or content was shown: typed again, it takes the hint or runs the
   * solution.
   */
  confirms?: 'h' | 's' | undefined
}

export type GuideEvent =
  /** A line of the learner. */
  | { type: 'line'; text: string }
  | { type: 'quit' }
  /**
   * The nodes were read, without sending packets; `begunAgain` are steps of another incident than
   * at the last read.
   */
  | { type: 'observed'; outcomes: readonly StepOutcome[]; begunAgain?: readonly string[] }
  | { type: 'trouble'; text: string }
  /** The instructor tells or asks something. */
  | { type: 'notice'; text: string }
  /** A step was checked completely, including its requests. */
  | { type: 'checked'; outcome: StepOutcome }
  /** A prediction was kept, and its step was checked. */
  | { type: 'predicted'; outcome: StepOutcome }
  /** Work whose result is only printed has ended. */
  | { type: 'result'; block: GuideBlock }
  | { type: 'finished'; summary: string }

export type GuideEffect =
  | { do: 'print'; block: GuideBlock }
  | { do: 'check'; step: string }
  | { do: 'answer'; step: string; text: string }
  | { do: 'hint'; step: string; tier: number }
  | { do: 'trace' }
  | { do: 'diff' }
  | { do: 'finish' }
  | { do: 'save' }
  | { do: 'quit' }
  /** A step is shown: later changes on the nodes are counted from now. */
  | { do: 'begin' }
  | { do: 'play'; step: string }

type Next = [GuideState, GuideEffect[]]

/** The state at the start of the guide. */
export const startGuide = (progress: LabProgress): GuideState => ({
  ...progress,
  isExplained: false,
})

const print = (block: GuideBlock): GuideEffect => ({ do: 'print', block })
const tell = (text: string): GuideEffect => print({ parts: [{ text }] })

/** The text of the place where the guide is, with its commands. */
export function placeBlock(state: GuideState): GuideBlock {
  const { lab, place, summary } = state
  const step = () => stepTaskText(shownStep(state))
  const markdown = place === 'intro' ? lab.intro : place === 'end' ? summary : step()
  return { title: placeTitle(state), markdown, parts: [{ text: commandsLine(state) }] }
}

export function advance(state: GuideState, event: GuideEvent): Next {
  switch (event.type) {
    case 'line':
      return onLine(state, event.text)
    case 'quit':
      return [state, [{ do: 'save' }, { do: 'quit' }]]
    case 'observed':
      return onObservation(state, event)
    case 'trouble':
      return [{ ...state, trouble: event.text, busy: undefined }, []]
    case 'notice':
      return [state, [tell(event.text)]]
    case 'checked':
      return onCheck({ ...state, busy: undefined }, event.outcome)
    case 'predicted':
      return onPrediction({ ...state, busy: undefined }, event.outcome)
    case 'result':
      return [{ ...state, busy: undefined }, [print(event.block)]]
    case 'finished':
      return onEnd({ ...state, busy: undefined, summary: event.summary })
  }
}

const begin = (state: GuideState, busy: string, effect: GuideEffect): Next => [
  { ...state, busy },
  [effect],
]

function onEnd(state: GuideState): Next {
  const next: GuideState = { ...state, place: 'end', isExplained: false }
  return [next, [print(placeBlock(next))]]
}

function onObservation(
  state: GuideState,
  { outcomes, begunAgain = [] }: Extract<GuideEvent, { type: 'observed' }>,
): Next {
  if (begunAgain.length === 0) return onOutcomes(state, outcomes)
  const forgotten = { ...forgetSteps(state, begunAgain), isExplained: false }
  const [next, effects] = onOutcomes(forgotten, outcomes)
  // Before the first incident there was nothing to forget.
  const isAnother = begunAgain.some((id) => state.passed.has(id))
  const told = isAnother ? [tell('Another incident was opened: its steps begin again.')] : []
  return [next, [...told, ...effects, { do: 'save' }]]
}

function onOutcomes(state: GuideState, outcomes: readonly StepOutcome[]): Next {
  const { progress, fresh } = applyObservation({ ...state, trouble: undefined }, outcomes)
  const effects: GuideEffect[] = fresh.length > 0 ? [{ do: 'save' }] : []
  if (state.place !== 'step') return [progress, effects]
  const others = fresh.filter((id) => id !== shownStepId(state)).map((id) => numberOf(state, id))
  // Steps that pass at the first observation are not announced.
  const isNews = others.length > 0 && state.outcomes.size > 0
  return [
    progress,
    isNews ? [tell(`Also passed: step ${others.join(', ')}.`), ...effects] : effects,
  ]
}

function onCheck(state: GuideState, outcome: StepOutcome): Next {
  const after = applyCheck(state, outcome)
  const title = `Step ${numberOf(state, outcome.id)}: ${outcome.verdict}`
  const measured = measuredLines(outcome).map((text): Part => ({ text, whole: true }))
  if (!isDone(outcome))
    return [after, [print({ title, parts: [...failureParts(state, outcome), ...measured] })]]
  const results = measured.length > 0 ? [print({ title, parts: measured })] : []
  const isShown = outcome.id === shownStepId(state) && state.place === 'step'
  if (!isShown || state.isExplained) return [after, [...results, { do: 'save' }]]
  const [next, explanation] = explain(after)
  return [next, [...results, ...explanation, { do: 'save' }]]
}

/** A first prediction is not told what else is open. */
function onPrediction(state: GuideState, outcome: StepOutcome): Next {
  if (isDone(outcome)) return onCheck(state, outcome)
  const { accepts } = outcome.learning?.prediction ?? {}
  const learnt = accepts ? learningLines(outcome.learning) : []
  const lines = [
    ...learnt,
    'Your prediction is kept. A wrong one costs nothing. Now go on with the commands of this step.',
  ]
  return [applyCheck(state, outcome), [print({ parts: lines.map((text) => ({ text })) })]]
}

/** Prints the explanation of a step below its task, if it has one. */
function explain(state: GuideState): Next {
  const block = explanationBlock(state)
  return block ? [{ ...state, isExplained: true }, [print(block)]] : [state, []]
}

/** Shows the task of a step, or grades the lab after the last step. */
function goToStep(state: GuideState, at: number): Next {
  if (at >= state.lab.steps.length) return begin(state, 'Grading every step', { do: 'finish' })
  const next = showStep({ ...state, isExplained: false }, at)
  return [next, [print(placeBlock(next)), { do: 'begin' }, { do: 'save' }]]
}

/** Goes to a place without a step, or back to the step that was shown last. */
function goTo(state: GuideState, place: GuideState['place']): Next {
  const next: GuideState = { ...state, place, isExplained: false }
  return [next, [print(placeBlock(next)), ...(place === 'step' ? [{ do: 'begin' } as const] : [])]]
}

function onLine({ asks, confirms, ...rest }: GuideState, text: string): Next {
  const state: GuideState = rest
  if (asks !== 'answer' && text === 'q') return advance(state, { type: 'quit' })
  if (state.busy !== undefined) return [{ ...state, asks, confirms }, []]
  if (asks !== undefined && text === '') return [state, []]
  if (asks === 'answer') return answer(state, text)
  const isNumber = /^\d+$/.test(text)
  const isAnswer = isNumber && asks !== 'step' && state.place === 'step' && openQuestion(state)
  if (isNumber && !isAnswer) return chooseStep(state, Number(text))
  if (text === 'l')
    return [{ ...state, asks: 'step' }, [print({ title: 'Steps', parts: listParts(state) })]]
  if (state.place === 'step') return onLineAtStep(state, text, confirms)
  if (text === 'b' && state.place === 'end') return goTo(state, 'step')
  if (text !== '') return [state, [tell(commandsLine(state))]]
  return state.place === 'intro' ? goToStep(state, 0) : [state, [{ do: 'quit' }]]
}

function chooseStep(state: GuideState, number: number): Next {
  if (state.lab.steps[number - 1]) return goToStep(state, number - 1)
  const { length } = state.lab.steps
  return [state, [tell(`There is no step ${number}: the last one is ${length}.`)]]
}

type AtStep = (state: GuideState, id: string, confirms: GuideState['confirms']) => Next

/** The commands of a step. */
const AT_STEP: ReadonlyMap<string, AtStep> = new Map<string, AtStep>([
  ['', continueFrom],
  ['b', goBack],
  ['n', (state) => goToStep(state, state.at + 1)],
  ['c', (state, step) => begin(state, 'Checking', { do: 'check', step })],
  ['h', onHint],
  ['t', (state) => begin(state, 'Tracing a packet', { do: 'trace' })],
  ['d', (state) => begin(state, 'Comparing the nodes', { do: 'diff' })],
  ['s', onSolution],
  ['a', askForAnswer],
])

function onLineAtStep(state: GuideState, text: string, confirms: GuideState['confirms']): Next {
  const command = AT_STEP.get(text)
  if (command) return command(state, shownStepId(state), confirms)
  const input = /^a\s+(.+)$/.exec(text)?.[1]
  if (input !== undefined && isAsking(state)) return answer(state, input)
  if (openQuestion(state)) return answer(state, text)
  const where = 'Commands of the text are typed in another terminal.'
  return [state, [tell(`${where} ${commandsLine(state)}`)]]
}

const isAsking = (state: GuideState): boolean => {
  const { predict, question } = shownStep(state).definition
  return predict !== undefined || question !== undefined
}

function askForAnswer(state: GuideState): Next {
  if (!isAsking(state)) return [state, [tell('This step has no question.')]]
  return [{ ...state, asks: 'answer' }, []]
}

/**
 * Submits an answer. A command of the text that was pasted here is none: a wrong answer may cost
 * points.
 */
function answer(state: GuideState, text: string): Next {
  const { task, seen } = shownStep(state)
  const isCommand = `${task}\n${seen}`.split('\n').some((line) => line.trim() === text)
  if (isCommand)
    return [
      state,
      [tell('This is a command of the text, not an answer: type it in another terminal.')],
    ]
  return begin(state, 'Checking the answer', { do: 'answer', step: shownStepId(state), text })
}

/** Enter: prints the explanation or the next step, or checks the step if it has not passed. */
function continueFrom(state: GuideState, step: string): Next {
  if (state.isExplained) return goToStep(state, state.at + 1)
  if (!isDone(outcomeOf(state, step))) return begin(state, 'Checking', { do: 'check', step })
  const [next, effects] = explain(state)
  return next.isExplained ? [next, effects] : goToStep(state, state.at + 1)
}

function goBack(state: GuideState): Next {
  if (state.isExplained) return goTo(state, 'step')
  return state.at === 0 ? goTo(state, 'intro') : goToStep(state, state.at - 1)
}

function onSolution(state: GuideState, step: string, confirms: GuideState['confirms']): Next {
  if (confirms === 's') return begin(state, 'Running the solution', { do: 'play', step })
  const block = { title: 'Reference solution', parts: solutionParts(state) }
  return [{ ...state, confirms: 's' }, [print(block)]]
}

/** The first `h` prints the cost, the second one the hint. */
function onHint(state: GuideState, step: string, confirms: GuideState['confirms']): Next {
  const { hints } = shownStep(state)
  const known = state.hints.get(step) ?? 0
  const shown = hints.map(
    (text, index): Part => ({ label: `${index + 1} of ${hints.length}`, text }),
  )
  if (known >= hints.length) {
    const last: Part = { text: 'This is the last hint: type s for the solution.' }
    return [state, [print({ title: 'Hints', parts: [...shown, last] })]]
  }
  const tier = known + 1
  if (confirms === 'h') {
    const next = { ...state, hints: new Map(state.hints).set(step, tier) }
    const block = { title: 'Hint', parts: shown.slice(0, tier) }
    return [next, [print(block), { do: 'hint', step, tier }]]
  }
  const isCommand = tier === hints.length ? ' contains the command' : ''
  const price = `Hint ${tier} of ${hints.length}${isCommand}. It costs no points, and the summary at the end lists it. Type h again to read it.`
  const block = { title: 'Cost of a hint', parts: [...shown.slice(0, known), { text: price }] }
  return [{ ...state, confirms: 'h' }, [print(block)]]
}
