// Renders the state of the guide as the rows of a screen, or as plain lines.

import stringWidth from 'string-width'
import wrapAnsi from 'wrap-ansi'
import { explanationOf, pointsOf, shownStep } from '../lab-progress.ts'
import { stepStatusLine } from './guide-panels.ts'
import type { GuideState } from './guide-state.ts'
import {
  layoutMarkdown,
  layoutParts,
  padTo,
  type Row,
  type Style,
  wrapRows,
} from './terminal-text.ts'

/** The minimum text width; narrower screens truncate lines. */
export const MIN_WIDTH = 40
const STATUS_ROWS = 4

const KEYS: readonly (readonly [string, string])[] = [
  ['Enter', 'continue'],
  ['b', 'back'],
  ['n', 'next'],
  ['h', 'hint'],
  ['c', 'check'],
  ['t', 'trace'],
  ['d', 'diff'],
  ['s', 'solution'],
  ['l', 'list'],
  ['q', 'quit'],
]

const KEYS_OUTSIDE_STEPS = ['Enter', 'b', 'l', 'q']

/** The rows of the main area: an open panel, or the lab's text. */
function textRows(state: GuideState, width: number, style: Style): Row[] {
  const { panel, lab, place } = state
  if (panel)
    return [
      { text: style.strong(panel.title) },
      { text: '' },
      ...layoutParts(panel.parts, width, style),
    ]
  if (place === 'intro') return layoutMarkdown(lab.intro, width, style)
  if (place === 'end') return layoutMarkdown(state.summary, width, style)
  const step = shownStep(state)
  const { definition, task } = step
  if (state.isExplained) return layoutMarkdown(explanationOf(step), width, style)
  const done = `**Done when:** ${definition.title}.`
  const question =
    definition.question === undefined
      ? ''
      : `\n\n**Question:** ${definition.question.ask} Press a to answer.`
  return layoutMarkdown(`${task}\n\n${done}${question}`, width, style)
}

/** The line above the text: lab, step, points. */
function headLine(state: GuideState, width: number): string {
  const { number, title } = state.lab.definition
  const { points, of } = pointsOf(state)
  const place = state.place !== 'step' ? '' : `step ${state.at + 1} of ${state.lab.steps.length} · `
  const right = `${place}${points}/${of} points`
  const long = `Lab ${number} · ${title}`
  const left = stringWidth(long) + stringWidth(right) + 2 <= width ? long : `Lab ${number}`
  return `${padTo(left, width - stringWidth(right))}${right}`
}

/** The line with the finding of the current step, or with the input. */
function statusLine(state: GuideState): string {
  if (state.typed !== undefined)
    return state.panel?.kind === 'list' ? `Step: ${state.typed}_` : `Answer: ${state.typed}_`
  if (state.place === 'intro') return 'Press Enter to start.'
  if (state.place === 'end') return 'Press Enter to quit the guide, b to go back.'
  const { mark, text } = stepStatusLine(state)
  const prompt =
    state.isExplained && !text.includes('Press Enter to continue') && state.busy === undefined
      ? '. Press Enter to continue.'
      : ''
  return `${mark} ${text}${prompt}${state.note === undefined ? '' : ` ${state.note}`}`
}

function keyLine(state: GuideState): string {
  if (state.typed !== undefined) return 'Enter  confirm   Esc  cancel'
  const { question } = shownStep(state).definition
  const keys =
    state.place === 'step' ? KEYS : KEYS.filter(([key]) => KEYS_OUTSIDE_STEPS.includes(key))
  const answerKey =
    question !== undefined && state.place === 'step' ? [['a', 'answer'] as const] : []
  return [...keys.slice(0, 1), ...answerKey, ...keys.slice(1)]
    .map(([key, action]) => `${key} ${action}`)
    .join('   ')
}

/** Renders the screen: header, text, status and keys, and the scroll limits of the text. The status is always visible. */
export function drawScreen(
  state: GuideState,
  { columns, rows: height }: { columns: number; rows: number },
  style: Style,
): { rows: Row[]; page: number; maxScroll: number } {
  const width = Math.max(MIN_WIDTH, columns)
  const status = wrapRows(statusLine(state), width, '', '  ').slice(0, STATUS_ROWS)
  const keys = wrapAnsi(keyLine(state), width)
    .split('\n')
    .map((text): Row => ({ text: style.dim(text) }))
  const page = Math.max(3, height - status.length - keys.length - 2)
  const text = textRows(state, width, style)
  const maxScroll = Math.max(0, text.length - page)
  const from = Math.min(state.scroll, maxScroll)
  const shown = text.slice(from, from + page)
  // The row that it continues is not visible.
  const [first] = shown
  if (first?.joined) shown[0] = { text: first.text }
  const blank = Array.from({ length: page - shown.length }, (): Row => ({ text: '' }))
  const more =
    maxScroll === 0 ? '' : from < maxScroll ? ' more below: Space, ↓ ' : ' end; ↑ scrolls up '
  const rule = style.dim(
    `${'─'.repeat(2)}${more}${'─'.repeat(Math.max(0, width - 2 - stringWidth(more)))}`,
  )
  const rows = [
    { text: style.strong(headLine(state, width)) },
    ...shown,
    ...blank,
    { text: rule },
    ...status,
    ...keys,
  ]
  return { rows: rows.slice(0, height), page, maxScroll }
}

/** Renders the differences between two states as plain lines, for a terminal without cursor control. */
export function plainLines(
  state: GuideState,
  before: GuideState | undefined,
  width: number,
  style: Style,
): string[] {
  const isNew =
    before?.place !== state.place ||
    before.isExplained !== state.isExplained ||
    before.at !== state.at ||
    before.panel !== state.panel ||
    before.summary !== state.summary
  const text = isNew
    ? [
        '',
        headLine(state, width).replace(/ {2,}/g, ' · '),
        '',
        ...joinRows(textRows(state, width, style)),
      ]
    : []
  const status = statusLine(state)
  const changed = isNew || (before && statusLine(before) !== status)
  const keys = isNew ? [keyLine(state)] : []
  return [...text, ...(changed ? [status] : []), ...keys]
}

/** Joins rows that were wrapped at the width of the screen. */
function joinRows(rows: readonly Row[]): string[] {
  const lines: string[] = []
  for (const { text, joined } of rows) {
    if (joined) lines.push(`${lines.pop() ?? ''}${text}`)
    else lines.push(text)
  }
  return lines
}
