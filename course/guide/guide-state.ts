// The state machine of the terminal guide: maps a state and an event to the next state and effects. Pure functions.

import type { StepOutcome } from '../../grading/failure.ts'
import { measuredLines } from '../../grading/learner-report.ts'
import {
  applyCheck,
  applyObservation,
  explanationOf,
  isDone,
  type LabProgress,
  outcomeOf,
  shownStep,
  shownStepId,
  showStep,
} from '../lab-progress.ts'
import {
  failureParts,
  type GuideStatus,
  listParts,
  numberOf,
  solutionParts,
} from './guide-panels.ts'
import type { Part } from './terminal-text.ts'

/** Content that is shown instead of the text until Enter: a hint, a finding, a trace. */
export interface Panel {
  /** Those with a key of their own: it takes the hint, runs the solution, or chooses a step. */
  kind: 'price' | 'solution' | 'list' | 'other'
  title: string
  parts: Part[]
}

export interface GuideState extends GuideStatus {
  /** The explanation of the step is shown in the place of its task. */
  isExplained: boolean
  panel?: Panel | undefined
  /** The input so far: an answer, or the number of a step. */
  typed?: string | undefined
  /** One line about the latest event. */
  note?: string | undefined
  /** The number of rows of text above the first visible one. */
  scroll: number
}

export type GuideEvent =
  /** The name of a key: `enter`, `escape`, `backspace`, or the character itself. */
  | { type: 'key'; key: string }
  | { type: 'scroll'; to: number }
  /** The nodes were read, without sending packets. */
  | { type: 'observed'; outcomes: readonly StepOutcome[] }
  | { type: 'trouble'; text: string }
  /** The instructor tells or asks something. */
  | { type: 'notice'; text: string }
  /** A step was checked completely, including its requests. */
  | { type: 'checked'; outcome: StepOutcome }
  | { type: 'panel'; title: string; parts: Part[] }
  | { type: 'finished'; summary: string }

export type GuideEffect =
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
  scroll: 0,
})

export function advance(state: GuideState, event: GuideEvent): Next {
  switch (event.type) {
    case 'key':
      return onKey({ ...state, note: undefined }, event.key)
    case 'scroll':
      return [{ ...state, scroll: event.to }, []]
    case 'observed':
      return onObservation(state, event.outcomes)
    case 'trouble':
      return [{ ...state, trouble: event.text, busy: undefined }, []]
    case 'notice':
      return [{ ...state, note: event.text }, []]
    case 'checked':
      return onCheck({ ...state, busy: undefined }, event.outcome)
    case 'panel':
      return [open({ ...state, busy: undefined }, 'other', event.title, event.parts), []]
    case 'finished':
      return [
        {
          ...close(state),
          busy: undefined,
          place: 'end',
          isExplained: false,
          summary: event.summary,
        },
        [],
      ]
  }
}

const open = (
  state: GuideState,
  kind: Panel['kind'],
  title: string,
  parts: Part[],
): GuideState => ({
  ...state,
  panel: { kind, title, parts },
  scroll: 0,
})

const close = (state: GuideState): GuideState => ({
  ...state,
  panel: undefined,
  typed: undefined,
  scroll: 0,
})

const begin = (state: GuideState, busy: string, effect: GuideEffect): Next => [
  { ...close(state), busy },
  [effect],
]

function onObservation(state: GuideState, outcomes: readonly StepOutcome[]): Next {
  const { progress, fresh } = applyObservation({ ...state, trouble: undefined }, outcomes)
  const effects: GuideEffect[] = fresh.length > 0 ? [{ do: 'save' }] : []
  if (state.place !== 'step') return [progress, effects]
  const others = fresh.filter((id) => id !== shownStepId(state)).map((id) => numberOf(state, id))
  // Steps that pass at the first observation are not announced.
  const isNews = others.length > 0 && state.outcomes.size > 0
  return [
    isNews ? { ...progress, note: `Also passed: step ${others.join(', ')}.` } : progress,
    effects,
  ]
}

function onCheck(state: GuideState, outcome: StepOutcome): Next {
  const after = applyCheck(state, outcome)
  const title = `Step ${numberOf(state, outcome.id)}: ${outcome.verdict}`
  const measured = measuredLines(outcome).map((text): Part => ({ text, whole: true }))
  if (!isDone(outcome))
    return [open(after, 'other', title, [...failureParts(state, outcome), ...measured]), []]
  const next: GuideState = { ...after, panel: undefined, scroll: 0 }
  const ready =
    outcome.id === shownStepId(state) && state.place === 'step' && !state.isExplained
      ? explain(next)
      : next
  return [measured.length > 0 ? open(ready, 'other', title, measured) : ready, [{ do: 'save' }]]
}

const explain = (state: GuideState): GuideState =>
  explanationOf(shownStep(state)) === ''
    ? state
    : { ...state, isExplained: true, scroll: 0, panel: undefined }

/** Shows the task of a step, or grades the lab after the last step. */
function goToStep(state: GuideState, at: number): Next {
  if (at >= state.lab.steps.length) return begin(state, 'Grading every step', { do: 'finish' })
  return [showStep({ ...close(state), isExplained: false }, at), [{ do: 'begin' }, { do: 'save' }]]
}

function onKey(state: GuideState, key: string): Next {
  const isLetter = state.typed !== undefined && state.panel?.kind !== 'list'
  if (key === 'quit' || (key === 'q' && !isLetter)) return [state, [{ do: 'save' }, { do: 'quit' }]]
  if (state.busy !== undefined) return [state, []]
  if (state.typed !== undefined) return onTyping(state, state.typed, key)
  if (key === 'l') return [{ ...open(state, 'list', 'Steps', listParts(state)), typed: '' }, []]
  if (state.place === 'intro')
    return key === 'enter' ? (state.panel ? [close(state), []] : goToStep(state, 0)) : [state, []]
  if (state.place === 'end') return onKeyAtEnd(state, key)
  const { id } = shownStep(state).definition
  switch (key) {
    case 'enter':
    case 'escape':
      if (state.panel) return [close(state), []]
      return key === 'enter' ? continueFrom(state) : [state, []]
    case 'b':
      return goBack(state)
    case 'n':
      return goToStep(state, state.at + 1)
    case 'c':
      return begin(state, 'Checking', { do: 'check', step: id })
    case 'h':
      return pressHint(state)
    case 't':
      return begin(state, 'Tracing a packet', { do: 'trace' })
    case 'd':
      return begin(state, 'Comparing the nodes', { do: 'diff' })
    case 's':
      return state.panel?.kind === 'solution'
        ? [close(state), [{ do: 'play', step: id }]]
        : [open(state, 'solution', 'Reference solution', solutionParts(state)), []]
    case 'a':
      if (shownStep(state).definition.question === undefined)
        return [{ ...state, note: 'This step has no question.' }, []]
      return [{ ...close(state), typed: '' }, []]
    default:
      return [state, []]
  }
}

function onKeyAtEnd(state: GuideState, key: string): Next {
  if (key === 'enter') return state.panel ? [close(state), []] : [state, [{ do: 'quit' }]]
  if (key === 'b') return [{ ...close(state), place: 'step' }, [{ do: 'begin' }]]
  return [close(state), []]
}

/** Enter: shows the explanation or the next step, or checks the step if it has not passed. */
function continueFrom(state: GuideState): Next {
  const step = shownStep(state)
  const { definition } = step
  if (state.isExplained) return goToStep(state, state.at + 1)
  if (!isDone(outcomeOf(state, definition.id)))
    return begin(state, 'Checking', { do: 'check', step: definition.id })
  return explanationOf(step) === '' ? goToStep(state, state.at + 1) : [explain(state), []]
}

function goBack(state: GuideState): Next {
  if (state.panel) return [close(state), []]
  if (state.isExplained) return [{ ...state, isExplained: false, scroll: 0 }, []]
  return state.at === 0 ? [{ ...close(state), place: 'intro' }, []] : goToStep(state, state.at - 1)
}

function onTyping(state: GuideState, typed: string, key: string): Next {
  const isList = state.panel?.kind === 'list'
  if (key === 'escape') return [close(state), []]
  if (key === 'backspace') return [{ ...state, typed: [...typed].slice(0, -1).join('') }, []]
  if (key !== 'enter') {
    if ([...key].length !== 1 || (isList && !/\d/.test(key)))
      return isList ? [close(state), []] : [state, []]
    return [{ ...state, typed: typed + key }, []]
  }
  if (typed.trim() === '') return [close(state), []]
  if (!isList) {
    return begin(state, 'Checking the answer', {
      do: 'answer',
      step: shownStepId(state),
      text: typed,
    })
  }
  const at = Number(typed) - 1
  if (state.lab.steps[at]) return goToStep(state, at)
  return [
    {
      ...close(state),
      note: `There is no step ${typed}: the last one is ${state.lab.steps.length}.`,
    },
    [],
  ]
}

/** The first key press shows the cost, the second one the hint. */
function pressHint(state: GuideState): Next {
  const { definition, hints } = shownStep(state)
  const { id } = definition
  const known = state.hints.get(id) ?? 0
  const shown = hints.map(
    (text, index): Part => ({ label: `${index + 1} of ${hints.length}`, text }),
  )
  if (state.panel?.kind === 'price') {
    const next = { ...state, hints: new Map(state.hints).set(id, known + 1) }
    return [
      open(next, 'other', 'Hint', shown.slice(0, known + 1)),
      [{ do: 'hint', step: id, tier: known + 1 }],
    ]
  }
  const all: Part = { text: 'This is the last hint: press s for the solution.' }
  if (known >= hints.length) return [open(state, 'other', 'Hints', [...shown, all]), []]
  const last = known + 1 === hints.length
  const price = `Hint ${known + 1} of ${hints.length}${last ? ' contains the command' : ''}. It costs no points, and the summary at the end lists it. Press h again to show it, Enter to return.`
  return [open(state, 'price', 'Cost of a hint', [...shown.slice(0, known), { text: price }]), []]
}
