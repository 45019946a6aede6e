// What the guide shows: a state as the rows of a screen, or as lines for those who read one after the other.

import stringWidth from 'string-width'
import wrapAnsi from 'wrap-ansi'
import { pointsOf, stepOf } from '../lab-progress.ts'
import { type GuideState, statusOf } from './guide-state.ts'
import { layoutMarkdown, layoutParts, padTo, type Row, type Style, wrapText } from './terminal-text.ts'

/** Narrower screens get text of this width, and cut it. */
export const NARROWEST = 40
const STATUS_ROWS = 4

/** A screen full of rows, and how far its text can be scrolled. */
export interface Screen {
  rows: Row[]
  /** Rows of the text that are shown at once. */
  page: number
  mostScroll: number
}

const KEYS: readonly (readonly [string, string])[] = [
  ['Enter', 'go on'],
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

/** Those that mean something before the first step and behind the last one. */
const FEW = ['Enter', 'b', 'l', 'q']

/** The text of what is shown: a panel, or the lab's own text. */
function textRows(state: GuideState, width: number, style: Style): Row[] {
  const { panel, lab, view } = state
  if (panel) return [{ text: style.strong(panel.title) }, { text: '' }, ...layoutParts(panel.parts, width, style)]
  if (view === 'intro') return layoutMarkdown(lab.intro, width, style)
  if (view === 'end') return layoutMarkdown(state.summary, width, style)
  const { definition, task, seen } = stepOf(state)
  if (view === 'seen') return layoutMarkdown(seen, width, style)
  const done = `**Done when:** ${definition.title}.`
  const question =
    definition.question === undefined ? '' : `\n\n**Question:** ${definition.question} Press a to answer.`
  return layoutMarkdown(`${task}\n\n${done}${question}`, width, style)
}

/** One line above the text: lab, step, points. */
function headLine(state: GuideState, width: number): string {
  const { number, title } = state.lab.definition
  const { points, of } = pointsOf(state)
  const place =
    state.view === 'intro' || state.view === 'end' ? '' : `step ${state.at + 1} of ${state.lab.steps.length} · `
  const right = `${place}${points}/${of} points`
  const long = `Lab ${number} · ${title}`
  const left = stringWidth(long) + stringWidth(right) + 2 <= width ? long : `Lab ${number}`
  return `${padTo(left, width - stringWidth(right))}${right}`
}

/** The line that says what is found, or what is being typed. */
function statusLine(state: GuideState): string {
  if (state.typed !== undefined)
    return state.panel?.kind === 'list' ? `Step: ${state.typed}_` : `Answer: ${state.typed}_`
  if (state.view === 'intro') return 'Enter begins.'
  if (state.view === 'end') return 'Enter ends the guide, b goes back.'
  const { mark, text } = statusOf(state)
  const goesOn =
    state.view === 'seen' && !text.includes('Enter goes on') && state.busy === undefined ? '. Enter goes on.' : ''
  return `${mark} ${text}${goesOn}${state.note === undefined ? '' : ` ${state.note}`}`
}

function keyLine(state: GuideState): string {
  if (state.typed !== undefined) return 'Enter  take it   Esc  leave it'
  const { question } = stepOf(state).definition
  const keys = state.view === 'intro' || state.view === 'end' ? KEYS.filter(([key]) => FEW.includes(key)) : KEYS
  const asked = question !== undefined && state.view !== 'intro' ? [['a', 'answer'] as const] : []
  return [...keys.slice(0, 1), ...asked, ...keys.slice(1)].map(([key, does]) => `${key} ${does}`).join('   ')
}

/** The whole screen: head, text, status and keys. What is found always has its place below the text. */
export function drawScreen(
  state: GuideState,
  { columns, rows: height }: { columns: number; rows: number },
  style: Style,
): Screen {
  const width = Math.max(NARROWEST, columns)
  const status = wrapText(statusLine(state), width, '', '  ').slice(0, STATUS_ROWS)
  const keys = wrapAnsi(keyLine(state), width)
    .split('\n')
    .map((text): Row => ({ text: style.dim(text) }))
  const page = Math.max(3, height - status.length - keys.length - 2)
  const text = textRows(state, width, style)
  const mostScroll = Math.max(0, text.length - page)
  const from = Math.min(state.scroll, mostScroll)
  const shown = text.slice(from, from + page)
  // The row that it continues is out of sight.
  const [first] = shown
  if (first?.joined) shown[0] = { text: first.text }
  const blank = Array.from({ length: page - shown.length }, (): Row => ({ text: '' }))
  const more = mostScroll === 0 ? '' : from < mostScroll ? ' more below: Space, ↓ ' : ' the end; ↑ goes up '
  const rule = style.dim(`${'─'.repeat(2)}${more}${'─'.repeat(Math.max(0, width - 2 - stringWidth(more)))}`)
  const rows = [{ text: style.strong(headLine(state, width)) }, ...shown, ...blank, { text: rule }, ...status, ...keys]
  return { rows: rows.slice(0, height), page, mostScroll }
}

/** What a reader of plain lines is told of a state, of which `before` is already known: only what is new. */
export function plainLines(state: GuideState, before: GuideState | undefined, width: number, style: Style): string[] {
  const isNew =
    before?.view !== state.view ||
    before.at !== state.at ||
    before.panel !== state.panel ||
    before.summary !== state.summary
  const text = isNew
    ? ['', headLine(state, width).replace(/ {2,}/g, ' · '), '', ...joinRows(textRows(state, width, style))]
    : []
  const status = statusLine(state)
  const changed = isNew || (before && statusLine(before) !== status)
  const keys = isNew ? [keyLine(state)] : []
  return [...text, ...(changed ? [status] : []), ...keys]
}

/** Rows as lines: what was cut at the end of a screen is whole again. */
function joinRows(rows: readonly Row[]): string[] {
  const lines: string[] = []
  for (const { text, joined } of rows) {
    if (joined) lines.push(`${lines.pop() ?? ''}${text}`)
    else lines.push(text)
  }
  return lines
}
