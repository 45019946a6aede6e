// Layout of text for a terminal: formats Markdown, tables, commands and labelled findings as rows of a given width. Pure
// functions.

import MarkdownIt, { type Token } from 'markdown-it'
import stringWidth from 'string-width'
import wrapAnsi from 'wrap-ansi'

/** One row of a screen. A `joined` row continues the one above without a line end, so that a terminal copies both as one line. */
export interface Row {
  text: string
  joined?: true
}

/** The styles of inline text. */
export type Style = Record<'strong' | 'emphasis' | 'code' | 'dim', (text: string) => string>

/** For screens without colours, and for screen readers. */
export const PLAIN: Style = { strong: String, emphasis: String, code: String, dim: String }

/**
 * A line that is not Markdown: a label with its text, or a line that is never wrapped at words (`whole`), such as a
 * command.
 */
export interface Part {
  label?: string
  text: string
  whole?: true
}

const LABEL = 10
const FENCE_INDENT = 4
const COLUMN_GAP = 2
const NARROWEST_COLUMN = 9

const markdown = new MarkdownIt({ html: true })
const row = (text: string): Row => ({ text })

/** Wraps a text at words; the second and later rows are indented by `hanging`. */
export function wrapRows(
  text: string,
  width: number,
  first = '',
  hanging = ' '.repeat(stringWidth(first)),
): Row[] {
  const room = Math.max(8, width - stringWidth(hanging))
  const lines = wrapAnsi(text, room, { hard: true }).split('\n')
  return lines.map((line, index) => row((index === 0 ? first : hanging) + line))
}

/** A line that is split only at the width of the screen. */
function wholeLine(text: string, width: number, indent = ''): Row[] {
  if (stringWidth(indent + text) <= width) return [row(indent + text)]
  const lines = wrapAnsi(text, width, { hard: true, wordWrap: false, trim: false }).split('\n')
  return lines.map((line, index) => (index === 0 ? row(line) : { text: line, joined: true }))
}

/** Labelled parts, one per row, with their texts in a second column if the width permits. */
export function layoutParts(parts: readonly Part[], width: number, style: Style): Row[] {
  const column = width < 60 ? 2 : LABEL
  return parts.flatMap(({ label, text, whole }) => {
    if (label === undefined) return whole ? wholeLine(text, width) : wrapRows(text, width)
    const above = label !== '' && column < LABEL ? [row(style.dim(label))] : []
    const first = column < LABEL ? ' '.repeat(column) : style.dim(label.padEnd(column))
    const indent = ' '.repeat(column)
    if (!whole) return [...above, ...wrapRows(text, width, first, indent)]
    const rows = wholeLine(text, width, indent)
    if (rows.length > 1) return [...(column < LABEL ? above : [row(first)]), ...rows]
    return [...above, row(first + text)]
  })
}

/** The rows of a Markdown text. */
export function layoutMarkdown(text: string, width: number, style: Style): Row[] {
  const rows = layoutBlocks(markdown.parse(text, {}), width, style)
  while (rows.at(-1)?.text === '') rows.pop()
  return rows
}

/** The outermost tokens, each with those between it and its closing one. */
function* blocksOf(tokens: readonly Token[]): Generator<{ token: Token; inside: Token[] }> {
  let at = 0
  while (at < tokens.length) {
    const start = at
    let depth = 0
    do depth += tokens[at++]?.nesting ?? 0
    while (depth > 0 && at < tokens.length)
    const token = tokens[start]
    if (token) yield { token, inside: tokens.slice(start + 1, at - 1) }
  }
}

function layoutBlocks(tokens: readonly Token[], width: number, style: Style): Row[] {
  const rows: Row[] = []
  for (const { token, inside } of blocksOf(tokens)) {
    rows.push(...layoutBlock(token, inside, width, style))
    if (token.type !== 'html_block' && rows.at(-1)?.text !== '' && !token.hidden) rows.push(row(''))
  }
  return rows
}

function layoutBlock(token: Token, inside: readonly Token[], width: number, style: Style): Row[] {
  switch (token.type) {
    case 'heading_open':
      return wrapRows(style.strong(inlineText(inside[0], style)), width)
    case 'paragraph_open':
      return wrapRows(inlineText(inside[0], style), width)
    case 'fence':
    case 'code_block': {
      const lines = token.content.replace(/\n$/, '').split('\n')
      return lines.flatMap((line) => wholeLine(style.code(line), width, ' '.repeat(FENCE_INDENT)))
    }
    case 'bullet_list_open':
    case 'ordered_list_open':
      return [...blocksOf(inside)].flatMap((item, index) => {
        const mark = token.type === 'bullet_list_open' ? '• ' : `${index + 1}. `
        const body = layoutBlocks(item.inside, width - mark.length, style).filter(
          ({ text }) => text !== '',
        )
        return body.map((line, at) =>
          line.joined ? line : row((at === 0 ? mark : ' '.repeat(mark.length)) + line.text),
        )
      })
    case 'table_open':
      return layoutTable(tableCells(inside, style), width, style)
    case 'inline':
      return wrapRows(inlineText(token, style), width)
    case 'hr':
      return [row(style.dim('─'.repeat(width)))]
    default:
      return token.nesting === 1 ? layoutBlocks(inside, width, style) : []
  }
}

function inlineText(token: Token | undefined, style: Style): string {
  const open: { close: string; from: number; style: (text: string) => string }[] = []
  let text = ''
  for (const part of token?.children ?? []) {
    if (part.type === 'text') text += part.content
    else if (part.type === 'softbreak') text += ' '
    else if (part.type === 'hardbreak') text += '\n'
    else if (part.type === 'code_inline') text += style.code(part.content)
    else if (part.type === 'strong_open')
      open.push({ close: 'strong_close', from: text.length, style: style.strong })
    else if (part.type === 'em_open')
      open.push({ close: 'em_close', from: text.length, style: style.emphasis })
    else if (part.type === open.at(-1)?.close) {
      const { from, style: paint } = open.pop() ?? { from: 0, style: String }
      text = text.slice(0, from) + paint(text.slice(from))
    }
  }
  return text
}

/** A table's cells, row by row; the first row is its head. */
function tableCells(tokens: readonly Token[], style: Style): string[][] {
  const cells: string[][] = []
  for (const token of tokens) {
    if (token.type === 'tr_open') cells.push([])
    if (token.type === 'inline') cells.at(-1)?.push(inlineText(token, style))
  }
  return cells
}

/**
 * Aligns columns and narrows the widest ones until all fit. If the width is too small, each row becomes a block of
 * lines.
 */
function layoutTable(cells: readonly string[][], width: number, style: Style): Row[] {
  const [head = [], ...body] = cells
  const widths = head.map((_, column) =>
    Math.max(...cells.map((line) => stringWidth(line[column] ?? ''))),
  )
  const room = width - COLUMN_GAP * (widths.length - 1)
  if (room < NARROWEST_COLUMN * widths.length)
    return body.flatMap((line) => [
      ...head.flatMap((name, column) =>
        wrapRows(`${style.strong(`${name}:`)} ${line[column] ?? ''}`, width, '', '  '),
      ),
      row(''),
    ])
  while (widths.reduce((sum, one) => sum + one, 0) > room) {
    const widest = widths.indexOf(Math.max(...widths))
    widths[widest] = (widths[widest] ?? 1) - 1
  }
  const print = (line: readonly string[]) => {
    const columns = widths.map((size, column) =>
      wrapAnsi(line[column] ?? '', size, { hard: true }).split('\n'),
    )
    const height = Math.max(...columns.map(({ length }) => length))
    return Array.from({ length: height }, (_, at) =>
      row(
        columns
          .map((lines, column) => padTo(lines[at] ?? '', widths[column] ?? 0))
          .join(' '.repeat(COLUMN_GAP))
          .trimEnd(),
      ),
    )
  }
  const rule = row(style.dim(widths.map((size) => '─'.repeat(size)).join(' '.repeat(COLUMN_GAP))))
  return [...print(head.map((name) => style.strong(name))), rule, ...body.flatMap(print)]
}

/** Pads text with spaces to a number of columns. */
export const padTo = (text: string, width: number): string =>
  text + ' '.repeat(Math.max(0, width - stringWidth(text)))
