/**
 * A finished drawing: `body` is SVG inside a viewBox of this size, one unit per pixel of a slide of
 * 1280×720.
 */
export interface Drawing {
  width: number
  height: number
  body: string
}

/** A figure for a slide, `wide`, and for a phone, `tall`, with a text alternative. */
export interface Figure {
  wide: Drawing
  tall: Drawing
  label: string
}

/** Widths of the two kinds of drawing. */
const WIDE = 1152
const TALL = 480

/** Draws a figure in both widths. Throws Error for text or boxes that do not fit. */
export function figure(label: string, draw: (canvas: Canvas, isWide: boolean) => void): Figure {
  const drawn = (width: number): Drawing => {
    const canvas = new Canvas(width)
    draw(canvas, width === WIDE)
    return canvas.finish()
  }
  return { wide: drawn(WIDE), tall: drawn(TALL), label }
}

/** The text size of all figures: readable from the last row at 1280×720. */
export const TEXT = 28

export interface Box {
  x: number
  y: number
  width: number
  height: number
}

export const boxAt = (x: number, y: number, width: number, height: number): Box => ({
  x,
  y,
  width,
  height,
})

type CanvasPoint = readonly [x: number, y: number]

/** The style of a shape: classes of the theme, whose contrast is tested. */
export type Tone = 'plain' | 'path' | 'strong' | 'faint' | 'good' | 'bad'

const LINE = 34

/** A drawing surface. Throws Error for text that does not fit into its box. */
export class Canvas {
  readonly width: number
  readonly #parts: string[] = []
  /** Where the drawing ends so far. */
  bottom = 0

  constructor(width: number) {
    this.width = width
  }

  /** A box with lines of text in its middle. */
  box(box: Box, lines: readonly string[], tone: Tone = 'plain', face: Face = 'sans'): Box {
    this.#reach(box)
    this.#parts.push(
      `<rect class="box ${tone}" x="${box.x}" y="${box.y}" width="${box.width}" height="${box.height}" rx="8"/>`,
    )
    const top = box.y + (box.height - lines.length * LINE) / 2
    for (const [index, line] of lines.entries()) {
      if (textWidth(line, TEXT, face) > box.width - 8 || lines.length * LINE > box.height) {
        throw new Error(
          `the text "${line}" does not fit into its box, which is ${box.width}×${box.height}`,
        )
      }
      this.#put(line, box.x + box.width / 2, top + index * LINE + 26, 'middle', face, `on ${tone}`)
    }
    return box
  }

  /** Text beside boxes; `x` is its start, middle or end. */
  text(
    line: string,
    x: number,
    y: number,
    options: { anchor?: 'start' | 'middle' | 'end'; face?: Face; tone?: Tone } = {},
  ) {
    const { anchor = 'start', face = 'sans', tone = 'plain' } = options
    const width = textWidth(line, TEXT, face)
    const left = anchor === 'start' ? x : anchor === 'middle' ? x - width / 2 : x - width
    if (left < -1 || left + width > this.width + 1) {
      throw new Error(`the text "${line}" does not fit into a figure ${this.width} wide`)
    }
    this.bottom = Math.max(this.bottom, y + 8)
    this.#put(line, x, y, anchor, face, `beside ${tone}`)
  }

  /** A bar without text. */
  bar(box: Box, tone: Tone): void {
    this.#reach(box)
    this.#parts.push(
      `<rect class="bar ${tone}" x="${box.x}" y="${box.y}" width="${Math.max(box.width, 2)}" height="${box.height}"/>`,
    )
  }

  /** An arrow through points, its head at the last one. */
  arrow(points: readonly CanvasPoint[], tone: Tone = 'plain'): void {
    for (const [x, y] of points) this.#reach({ x, y, width: 0, height: 0 })
    const [before = [0, 0], [x, y] = before] = points.slice(-2)
    const angle = Math.atan2(y - before[1], x - before[0])
    // The line ends inside the head, so that the tip stays sharp.
    const cut = Math.min(10, Math.hypot(x - before[0], y - before[1]) / 2)
    const line = [
      ...points.slice(0, -1),
      [x - cut * Math.cos(angle), y - cut * Math.sin(angle)] as const,
    ]
    const path = line
      .map(([x, y], index) => `${index === 0 ? 'M' : 'L'}${round(x)} ${round(y)}`)
      .join(' ')
    const turn = `translate(${round(x)} ${round(y)}) rotate(${round((angle * 180) / Math.PI)})`
    this.#parts.push(
      `<path class="arrow ${tone}" d="${path}"/>`,
      `<path class="head ${tone}" d="M0 0L-13 -7L-13 7Z" transform="${turn}"/>`,
    )
  }

  /**
   * An arrow from one box to another, across the wider of the gaps between them; bent where they
   * are not in line.
   */
  connect(from: Box, to: Box, tone: Tone = 'plain'): void {
    const isAcross = gapBetween(from, to) > gapBetween(turned(from), turned(to))
    const points = isAcross
      ? arrowAcross(from, to)
      : arrowAcross(turned(from), turned(to)).map(([y, x]): CanvasPoint => [x, y])
    this.arrow(points, tone)
  }

  finish(): Drawing {
    return { width: this.width, height: Math.ceil(this.bottom + 2), body: this.#parts.join('\n') }
  }

  #put(line: string, x: number, y: number, anchor: string, face: Face, tone: string): void {
    this.#parts.push(
      `<text class="${face} ${tone}" x="${round(x)}" y="${round(y)}" text-anchor="${anchor}" font-size="${TEXT}">${escapeText(line)}</text>`,
    )
  }

  #reach({ x, y, width, height }: Box): void {
    if (x < 0 || y < 0 || x + width > this.width) {
      throw new Error(`a box at ${x},${y} is outside the figure, which is ${this.width} wide`)
    }
    this.bottom = Math.max(this.bottom, y + height)
  }
}

/** Text for the inside of an element or an attribute in double quotes. */
export function escapeText(text: string): string {
  return text
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/"/g, '&quot;')
}

/** The box with its axes exchanged: what holds across for it holds down for the box itself. */
const turned = ({ x, y, width, height }: Box): Box => ({ x: y, y: x, width: height, height: width })

/** The space beside a box up to another; negative if one is above the other. */
const gapBetween = (from: Box, to: Box): number =>
  Math.max(to.x - from.x - from.width, from.x - to.x - to.width)

/** The points of an arrow between the facing sides of two boxes that are side by side. */
function arrowAcross(from: Box, to: Box): CanvasPoint[] {
  const [start, end] = to.x > from.x ? [from.x + from.width, to.x] : [from.x, to.x + to.width]
  const [source, target] = [from.y + from.height / 2, to.y + to.height / 2]
  const middle = (start + end) / 2
  const bends = [source, target].map((height): CanvasPoint => [middle, height])
  return [[start, source], ...(source === target ? [] : bends), [end, target]]
}

const round = (value: number): number => Math.round(value * 10) / 10

/** The typeface of a text: proportional, bold, or monospaced. */
export type Face = 'sans' | 'bold' | 'mono'

// Advance widths in em of DejaVu, the widest fallback typeface of browsers, so the estimate is
// conservative.
const NARROW = 0.34
const MEDIUM = 0.46
const BROAD = 0.84
const NORMAL = 0.625
const MONO = 0.603
const BOLDNESS = 1.12

/** The width of one line of text in px, an upper bound for browsers. Pure; reads no font. */
export function textWidth(text: string, size: number, face: Face = 'sans'): number {
  let width = 0
  for (const character of text) width += glyphWidth(character, face)
  return width * size * (face === 'bold' ? BOLDNESS : 1)
}

function glyphWidth(character: string, face: Face): number {
  const wide = character.codePointAt(0) ?? 0
  if (wide >= 0x1100 && (wide <= 0x11ff || wide >= 0x2e80)) return 1
  if (face === 'mono') return MONO
  if (/[ijlI.,:;'!|]/.test(character)) return NARROW
  if (/[ frt()[\]"/\\-]/.test(character)) return MEDIUM
  if (/[A-HJ-Zmw@%→←…–=+<>]/.test(character)) return BROAD
  return NORMAL
}

/**
 * Breaks a text into lines of at most `width` px at its blanks; a word that is too long is broken
 * too, as in the pages.
 */
export function wrapText(text: string, width: number, size: number, face: Face = 'sans'): string[] {
  const fits = (line: string) => textWidth(line, size, face) <= width
  const lines: string[] = []
  let line = ''
  for (const word of text.split(/\s+/).filter((part) => part !== '')) {
    const longer = line === '' ? word : `${line} ${word}`
    if (fits(longer)) {
      line = longer
      continue
    }
    if (line !== '') lines.push(line)
    line = ''
    for (const character of word) {
      if (line !== '' && !fits(line + character)) {
        lines.push(line)
        line = ''
      }
      line += character
    }
  }
  return [...lines, line]
}
