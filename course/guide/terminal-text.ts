// Layout of text for a terminal: formats Markdown, tables, commands and labelled findings as lines.
// Prose is wrapped at words; a command is one line however long it is, so that it can be copied.
// Pure functions.

import MarkdownIt, { type Token } from 'markdown-it'
import stringWidth from 'string-width'
import wrapAnsi from 'wrap-ansi'
import { CODE_SPACE, wrapLines } from '../../host/wrap-lines.ts'

/** The styles of inline text. */
export type Style = Record<'strong' | 'emphasis' | 'code' | 'dim', (text: string) => string>

/** For screens without colours, and for screen readers. */
export const PLAIN: Style = { strong: String, emphasis: String, code: String, dim: String }

/**
 * A line that is not Markdown: a label with its text, or a line that is never wrapped at words
 * (`whole`), such as a command.
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
/** Labelled parts, one per line, with their texts in a second column if the width permits. */
export function layoutParts(parts: readonly Part[], width: number, style: Style): string[] {
  const column = width < 60 ? 2 : LABEL
  return parts.flatMap(({ label, text, whole }) => {
    if (label === undefined) return whole ? [text] : wrapLines(text, width)
    const above = label !== '' && column < LABEL ? [style.dim(label)] : []
    const first = column < LABEL ? ' '.repeat(column) : style.dim(label.padEnd(column))
    const indent = ' '.repeat(column)
    if (!whole) return [...above, ...wrapLines(text, width, first, indent)]
    return [...above, first + text]
  })
}

/** The lines of a Markdown text. */
export function layoutMarkdown(text: string, width: number, style: Style): string[] {
  const lines = layoutBlocks(markdown.parse(text, {}), width, style)
  while (lines.at(-1) === '') lines.pop()
  return lines
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

function layoutBlocks(tokens: readonly Token[], width: number, style: Style): string[] {
  const lines: string[] = []
  for (const { token, inside } of blocksOf(tokens)) {
    lines.push(...layoutBlock(token, inside, width, style))
    if (token.type !== 'html_block' && lines.at(-1) !== '' && !token.hidden) lines.push('')
  }
  return lines
}

const ASKS = /^\*\*(Predict|Question|Recall)\.\*\*/

/** What a text asks: its choices and its command are lines of their own, as in the source. */
function keepLinesOfAsking(inside: readonly Token[]): void {
  for (const { content, children } of inside) {
    if (!ASKS.test(content)) continue
    for (const [at, part] of (children ?? []).entries()) {
      const next = children?.slice(at + 1).find(({ type, content }) => type !== 'text' || content)
      if (part.type === 'softbreak' && next?.type === 'code_inline') part.type = 'hardbreak'
    }
  }
}

function layoutBlock(
  token: Token,
  inside: readonly Token[],
  width: number,
  style: Style,
): string[] {
  switch (token.type) {
    case 'heading_open':
      return wrapLines(style.strong(inlineText(inside[0], style)), width)
    case 'paragraph_open':
      return wrapLines(inlineText(inside[0], style), width)
    case 'fence':
    case 'code_block': {
      const lines = token.content.replace(/\n$/, '').split('\n')
      return lines.map((line) => ' '.repeat(FENCE_INDENT) + style.code(line))
    }
    case 'bullet_list_open':
    case 'ordered_list_open':
      return [...blocksOf(inside)].flatMap((item, index) => {
        const mark = token.type === 'bullet_list_open' ? '• ' : `${index + 1}. `
        const body = layoutBlocks(item.inside, width - mark.length, style)
        return body
          .filter((line) => line !== '')
          .map((line, at) => (at === 0 ? mark : ' '.repeat(mark.length)) + line)
      })
    case 'table_open':
      return layoutTable(tableCells(inside, style), width, style)
    case 'blockquote_open':
      keepLinesOfAsking(inside)
      return layoutBlocks(inside, width, style)
    case 'inline':
      return wrapLines(inlineText(token, style), width)
    case 'hr':
      return [style.dim('─'.repeat(width))]
    default:
      return token.nesting === 1 ? layoutBlocks(inside, width, style) : []
  }
}

/** The text of a part of a line that contains no other part. */
function leafText({ type, content }: Token, style: Style): string {
  if (type === 'text') return content
  if (type === 'softbreak') return ' '
  if (type === 'hardbreak') return '\n'
  return type === 'code_inline' ? style.code(content.replaceAll(' ', CODE_SPACE)) : ''
}

function inlineText(token: Token | undefined, style: Style): string {
  const open: { from: number; style: (text: string) => string }[] = []
  let text = ''
  for (const part of token?.children ?? []) {
    if (part.type === 'strong_open') open.push({ from: text.length, style: style.strong })
    else if (part.type === 'em_open') open.push({ from: text.length, style: style.emphasis })
    else if (part.type === 'strong_close' || part.type === 'em_close') {
      const { from, style: paint } = open.pop() ?? { from: 0, style: String }
      text = text.slice(0, from) + paint(text.slice(from))
    } else text += leafText(part, style)
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
 * Aligns columns and narrows the widest ones until all fit, as far as words stay whole. If they
 * don't fit then, each row becomes a block of lines.
 */
function layoutTable(cells: readonly string[][], width: number, style: Style): string[] {
  const [head = [], ...body] = cells
  const room = width - COLUMN_GAP * (head.length - 1)
  const widths = columnWidths(cells, room)
  if (!widths)
    return body.flatMap((line) => [
      ...head.flatMap((name, column) =>
        wrapLines(`${style.strong(`${name}:`)} ${line[column] ?? ''}`, width, '', '  '),
      ),
      '',
    ])
  const gap = ' '.repeat(COLUMN_GAP)
  const draw = (line: readonly string[]) => {
    const columns = widths.map((size, column) => wrapAnsi(line[column] ?? '', size).split('\n'))
    const height = Math.max(...columns.map(({ length }) => length))
    return Array.from({ length: height }, (_, at) => {
      const texts = columns.map((lines, column) => padTo(lines[at] ?? '', widths[column] ?? 0))
      return texts.join(gap).trimEnd().replaceAll(CODE_SPACE, ' ')
    })
  }
  const rule = style.dim(widths.map((size) => '─'.repeat(size)).join(gap))
  return [...draw(head.map((name) => style.strong(name))), rule, ...body.flatMap(draw)]
}

/**
 * The widths of a table's columns in `room` columns of the terminal; undefined if their words don't
 * fit.
 */
function columnWidths(cells: readonly string[][], room: number): number[] | undefined {
  const [head = []] = cells
  const longest = (measure: (cell: string) => number) =>
    head.map((_, column) => Math.max(...cells.map((line) => measure(line[column] ?? ''))))
  const narrowest = longest((cell) =>
    Math.max(...cell.split(/\s+/).map((word) => stringWidth(word))),
  )
  const widths = longest((cell) => stringWidth(cell))
  const sum = () => widths.reduce((total, one) => total + one, 0)
  while (sum() > room) {
    const spare = widths.map((size, column) =>
      size > Math.max(NARROWEST_COLUMN, narrowest[column] ?? 0) ? size : 0,
    )
    const widest = spare.indexOf(Math.max(...spare))
    if (!spare[widest]) return undefined
    widths[widest] = (widths[widest] ?? 1) - 1
  }
  return widths
}

/** Pads text with spaces to a number of columns. */
const padTo = (text: string, width: number): string =>
  text + ' '.repeat(Math.max(0, width - stringWidth(text)))
