import { textWidth } from '../build/text-width.ts'
import { Canvas, type Drawing, type Figure, TALL, TEXT, type Tone, WIDE } from './canvas.ts'

/** One bar: its share of the whole (0 to 1), where it begins, and what is written at its end. */
export interface Bar {
  name: string
  share: number
  from?: number
  value: string
  tone?: Tone
}

const ROW = 72

/** Horizontal bars, one below the other, all on the same scale: the whole is `whole` (1 unless told). */
export function barsFigure(bars: readonly Bar[], label: string, whole = 1): Figure {
  return { wide: draw(bars, WIDE, whole), tall: draw(bars, TALL, whole), label }
}

function draw(bars: readonly Bar[], width: number, whole: number): Drawing {
  const canvas = new Canvas(width)
  const beside = width === WIDE
  const widest = (key: 'name' | 'value') => Math.max(...bars.map((bar) => textWidth(bar[key], TEXT, 'sans')))
  const left = beside ? Math.ceil(widest('name')) + 20 : 0
  const room = width - left - Math.ceil(widest('value')) - 18
  if (room < 120) throw new Error('the names of the bars leave no room for the bars')
  const step = beside ? ROW : ROW + 36
  for (const [index, { name, share, from = 0, value, tone = 'way' }] of bars.entries()) {
    const y = index * step
    const top = beside ? y : y + 36
    canvas.text(name, 0, y + (beside ? 36 : 26))
    const x = left + (from / whole) * room
    const end = x + (share / whole) * room
    if (from > 0) canvas.bar({ x: left, y: top + 23, width: x - left, height: 6 }, 'faint')
    canvas.bar({ x, y: top, width: end - x, height: 52 }, tone)
    canvas.text(value, end + 12, top + 36)
  }
  return canvas.finish()
}

/** What each rule of a KUBE-SVC- chain with n endpoints takes: 1/n, 1/(n-1) … of what is left, always the same share. */
export function drawChances(endpoints: number): Bar[] {
  return Array.from({ length: endpoints }, (_, index) => {
    const left = endpoints - index
    const chance = left === 1 ? 'no condition' : `chance 1/${left}`
    return {
      name: `rule ${index + 1}: ${chance}`,
      share: 1 / endpoints,
      from: index / endpoints,
      value: `1/${endpoints} of all`,
    }
  })
}

/** How traffic spreads over Pods when each node gets the same part and shares it among its own Pods only. */
export function localShares(podsOfNodes: readonly number[]): Bar[] {
  const answering = podsOfNodes.filter((pods) => pods > 0).length
  return podsOfNodes.flatMap((pods, node) =>
    Array.from({ length: pods }, (_, pod) => {
      const share = 1 / answering / pods
      return {
        name: `node ${node + 1}, Pod ${pod + 1}`,
        share,
        value: `${Math.round(share * 1000) / 10} %`,
        tone: node % 2 === 0 ? ('way' as const) : ('strong' as const),
      }
    }),
  )
}

/** How often each backend answered; the longest bar is the most frequent one. */
export function countBars(counts: Readonly<Record<string, number>>): Bar[] {
  const entries = Object.entries(counts).sort(([one], [other]) => one.localeCompare(other))
  const all = entries.reduce((sum, [, count]) => sum + count, 0)
  return entries.map(([name, count]) => ({ name, share: count / all, value: `${count} of ${all}` }))
}
