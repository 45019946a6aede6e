import { textWidth } from '../build/text-width.ts'
import { Canvas, type Drawing, type Figure, TALL, TEXT, type Tone, WIDE } from './canvas.ts'

/** One quantity over the sizes, and what is said of it beside its end. */
export interface Curve {
  name: string
  values: readonly number[]
  tone: Extract<Tone, 'way' | 'strong'>
}

const HEIGHT = 360
const AXIS = 44

/**
 * Quantities over sizes, both axes linear and from zero, so that what grows by the same for each more is a straight line. Throws Error
 * for curves without values, and for words that do not fit.
 */
export function curvesFigure(sizes: readonly number[], curves: readonly Curve[], label: string): Figure {
  if (sizes.length < 2 || curves.some(({ values }) => values.length !== sizes.length))
    throw new Error('a curve needs a value for each of two sizes or more')
  return { wide: draw(sizes, curves, WIDE), tall: draw(sizes, curves, TALL), label }
}

function draw(sizes: readonly number[], curves: readonly Curve[], width: number): Drawing {
  const canvas = new Canvas(width)
  const largest = Math.max(...sizes)
  const highest = Math.max(...curves.flatMap(({ values }) => values))
  const left = Math.ceil(textWidth(thousands(highest), TEXT, 'sans')) + 14
  const beside = width === WIDE
  const names = Math.max(...curves.map(({ name }) => textWidth(name, TEXT, 'sans')))
  const right = beside ? Math.ceil(names) + 24 : 16
  const top = beside ? 14 : curves.length * 36 + 14
  const bottom = top + HEIGHT
  const x = (size: number) => left + (size / largest) * (width - left - right)
  const y = (value: number) => bottom - (value / highest) * HEIGHT
  canvas.bar({ x: left, y: top, width: 2, height: HEIGHT }, 'faint')
  canvas.bar({ x: left, y: bottom, width: width - left - right, height: 2 }, 'faint')
  canvas.text(thousands(highest), left - 10, top + 10, { anchor: 'end' })
  canvas.text('0', left - 10, bottom + 8, { anchor: 'end' })
  for (const size of readable(sizes, x, beside ? 90 : 70))
    canvas.text(thousands(size), x(size), bottom + AXIS - 6, { anchor: size === largest ? 'end' : 'middle' })
  for (const [index, { name, values, tone }] of curves.entries()) {
    const points = sizes.map((size, at) => [x(size), y(values[at] ?? 0)] as const)
    canvas.arrow(points, tone)
    if (beside) canvas.text(name, x(largest) + 16, (points.at(-1)?.[1] ?? 0) + 8, { tone })
    else canvas.text(name, left, index * 36 + 24, { tone })
  }
  return canvas.finish()
}

/** The sizes whose labels do not run into the next one's, the largest always. */
function readable(sizes: readonly number[], x: (size: number) => number, room: number): number[] {
  const shown: number[] = []
  for (const size of [...sizes].reverse()) if (shown.every((one) => x(one) - x(size) > room)) shown.push(size)
  return shown
}

const thousands = (value: number) => value.toLocaleString('en')
