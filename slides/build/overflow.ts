import type { Token } from 'markdown-it'
import type { BuiltDeck, BuiltSlide, Content } from './content.ts'
import { plainText } from './deck.ts'
import { CONTENT, GEOMETRY as G, SCALES } from './geometry.ts'
import { type Face, textWidth, wrapText } from './text-width.ts'

/** A slide whose content needs more px than available. */
export interface Overflow {
  deck: string
  line: number
  title: string
  needs: number
  has: number
}

/** The slides of a deck that would be cut off, by a conservative estimate without a browser. */
export function findOverflows(deck: BuiltDeck): Overflow[] {
  return deck.slides
    .map((slide) => ({
      deck: deck.name,
      line: slide.line,
      title: slide.title,
      needs: slideHeight(slide),
      has: CONTENT.height,
    }))
    .filter(({ needs, has }) => needs > has)
}

/**
 * The height in px that a slide's heading and content need at 1280×720, the content's text enlarged by `scale` (figures and
 * headings are not).
 */
export function slideHeight(slide: BuiltSlide, scale = 1): number {
  const [size, line] = slide.level === 1 ? [G.cover, G.coverLine] : [G.title, G.titleLine]
  const title = wrapText(slide.title, CONTENT.width, size, 'bold').length * line + G.titleGap
  const contents = slide.contents.reduce((sum, content) => {
    if (content.kind === 'figure') return sum + content.figure.wide.height + G.gap * scale
    return sum + scale * textHeight(content, CONTENT.width / scale)
  }, 0)
  return title + contents
}

/** The largest scale at which the text of a slide fits, without a line of commands that the browser breaks. */
export function textScale(slide: BuiltSlide): number {
  if (slide.level === 1) return 1
  const commands = slide.contents.flatMap((content) => (content.kind === 'code' ? content.text.split('\n') : []))
  const longest = Math.max(0, ...commands.map((line) => textWidth(line, G.code, 'mono'))) + 2 * G.codePad
  const fits = (scale: number) =>
    longest * scale <= CONTENT.width && slideHeight(slide, scale) <= CONTENT.height - SPARE
  return SCALES.find(fits) ?? 1
}

const SPARE = 24

function textHeight(content: Exclude<Content, { kind: 'figure' }>, width: number): number {
  return content.kind === 'code' ? codeHeight(content.text, width) : tokensHeight(content.tokens, width)
}

function codeHeight(text: string, width: number): number {
  const room = width - 2 * G.codePad
  const lines = text.split('\n').reduce((sum, line) => sum + wrapText(line, room, G.code, 'mono').length, 0)
  return lines * G.codeLine + 2 * G.codePad + G.gap
}

function tokensHeight(tokens: readonly Token[], width: number): number {
  let height = 0
  let depth = 0
  for (const [index, token] of tokens.entries()) {
    if (token.type === 'bullet_list_open' || token.type === 'ordered_list_open') depth += 1
    if (token.type === 'bullet_list_close' || token.type === 'ordered_list_close') {
      depth -= 1
      if (depth === 0) height += G.gap - G.itemGap
    }
    if (token.type === 'fence' || token.type === 'code_block') height += codeHeight(token.content.trimEnd(), width)
    if (token.type === 'table_open') height += tableHeight(tokens.slice(index), width) + G.gap
    if (token.type === 'inline' && tokens[index - 1]?.type === 'paragraph_open') {
      const lines = inlineLines(token, width - depth * G.indent, G.text, 'sans')
      height += lines * G.textLine + (depth > 0 ? G.itemGap : G.gap)
    }
  }
  return height
}

/** Number of lines of running text, with the wider glyphs of code and bold text. */
function inlineLines(token: Token, width: number, size: number, face: Face): number {
  const paragraphs = (token.children ?? []).reduce<Token[][]>(
    (lines, child) => {
      if (child.type === 'hardbreak') lines.push([])
      else lines.at(-1)?.push(child)
      return lines
    },
    [[]],
  )
  return paragraphs.reduce((sum, line) => {
    const code = line.filter((child) => child.type === 'code_inline')
    // Monospaced words are wider than the same letters in running text.
    const extra = code.reduce((more, { content }) => {
      const wider = textWidth(content, G.code, 'mono') + 12 - textWidth(content, size, face)
      return more + Math.max(0, wider)
    }, 0)
    const text = plainText(line)
    const bold = line.some((child) => child.type === 'strong_open')
    const whole = textWidth(text, size, bold ? 'bold' : face)
    const stretch = whole === 0 ? 1 : (whole + extra) / whole
    return sum + wrapText(text, width / stretch, size, bold ? 'bold' : face).length
  }, 0)
}

function tableHeight(tokens: readonly Token[], width: number): number {
  const rows: Token[][] = []
  for (const [index, token] of tokens.entries()) {
    if (token.type === 'table_close') break
    if (token.type === 'tr_open') rows.push([])
    if (token.type === 'inline' && /^t[hd]_open$/.test(tokens[index - 1]?.type ?? '')) rows.at(-1)?.push(token)
  }
  const widths = columnWidths(rows, width)
  return rows.reduce((sum, row, index) => {
    const face = index === 0 ? 'bold' : 'sans'
    const lines = row.map((cell, at) => inlineLines(cell, widths[at] ?? 100, G.table, face))
    return sum + Math.max(...lines, 1) * G.tableLine + 2 * G.cellPad + 1
  }, 0)
}

/**
 * Distributes the width as browsers do: each column gets the width of its longest word, and a share of the rest in proportion
 * to its remaining need.
 */
function columnWidths(rows: readonly Token[][], width: number): number[] {
  const columns = Math.max(...rows.map((row) => row.length))
  const cells = (at: number) => rows.map((row) => plainText(row[at] ? [row[at]] : []))
  const widest = (texts: readonly string[]) => Math.max(...texts.map((text) => textWidth(text, G.table, 'mono')))
  const least = Array.from({ length: columns }, (_, at) => widest(cells(at).flatMap((text) => text.split(/\s+/))))
  const most = Array.from({ length: columns }, (_, at) => widest(cells(at)))
  const room = width - columns * 2 * G.cellSide
  const total = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0)
  if (total(most) <= room) return most
  const spare = Math.max(0, room - total(least))
  const wish = total(most) - total(least)
  return least.map((need, at) => need + (wish > 0 ? (spare * ((most[at] ?? 0) - need)) / wish : 0))
}
