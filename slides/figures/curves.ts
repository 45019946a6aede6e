import {
  type Counts,
  countState,
  MEASURED_NODE,
  MEASURED_VERSION,
  syntheticCluster,
} from '../../course/scale/synthetic-cluster.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { readObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'
import { textWidth } from '../build/text-width.ts'
import { Canvas, type Drawing, type Figure, TALL, TEXT, type Tone, WIDE } from './canvas.ts'

/** One quantity over the sizes, and its label. */
interface Curve {
  name: string
  values: readonly number[]
  tone: Extract<Tone, 'path' | 'strong'>
}

const HEIGHT = 360
const AXIS = 44

/**
 * Quantities over sizes, both axes linear and from zero, so that linear growth is a straight line. Throws Error for curves
 * without values, and for labels that do not fit.
 */
function curvesFigure(sizes: readonly number[], curves: readonly Curve[], label: string): Figure {
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

/** The sizes whose labels do not overlap the next one; the largest is always included. */
function readable(sizes: readonly number[], x: (size: number) => number, room: number): number[] {
  const shown: number[] = []
  for (const size of [...sizes].reverse()) if (shown.every((one) => x(one) - x(size) > room)) shown.push(size)
  return shown
}

const thousands = (value: number) => value.toLocaleString('en')

const SIZES = [10, 250, 500, 750, 1000]

const known = new Map<number, Record<SwitchedMode, Counts>[]>()

/** The predicted counts of a node at each size, in both modes; computed once. */
function countsAt(endpoints: number): Record<SwitchedMode, Counts>[] {
  const before = known.get(endpoints)
  if (before) return before
  const counts = SIZES.map((services) => {
    const { objects } = readObjects(syntheticCluster(services, endpoints))
    const count = (mode: SwitchedMode) =>
      countState(predict(objects, { node: MEASURED_NODE, mode, version: MEASURED_VERSION }))
    return { iptables: count('iptables'), ipvs: count('ipvs') }
  })
  known.set(endpoints, counts)
  return counts
}

/** The predicted number of rules on a node over the number of Services. */
export function ruleGrowthFigure(endpoints: number): Figure {
  const counts = countsAt(endpoints)
  const values = (mode: SwitchedMode) => counts.map((at) => at[mode].rules)
  const last = (mode: SwitchedMode) => values(mode).at(-1) ?? 0
  return curvesFigure(
    SIZES,
    [
      { name: 'iptables', values: values('iptables'), tone: 'path' },
      { name: 'IPVS', values: values('ipvs'), tone: 'strong' },
    ],
    `Rules on a node with ${SIZES.at(-1)} Services of ${endpoints} endpoints: ${last('iptables')} in iptables mode, ${last('ipvs')} in IPVS mode.`,
  )
}

/** One bar: its share of the whole (0 to 1), its start, and the label at its end. */
export interface Bar {
  name: string
  share: number
  from?: number
  value: string
  tone?: Tone
}

const ROW = 72

/** Horizontal bars, one below the other, all on the same scale: the whole is `whole` (default 1). */
export function barsFigure(bars: readonly Bar[], label: string, whole = 1): Figure {
  return { wide: drawBars(bars, WIDE, whole), tall: drawBars(bars, TALL, whole), label }
}

function drawBars(bars: readonly Bar[], width: number, whole: number): Drawing {
  const canvas = new Canvas(width)
  const beside = width === WIDE
  const widest = (key: 'name' | 'value') => Math.max(...bars.map((bar) => textWidth(bar[key], TEXT, 'sans')))
  const left = beside ? Math.ceil(widest('name')) + 20 : 0
  const room = width - left - Math.ceil(widest('value')) - 18
  if (room < 120) throw new Error('the names of the bars leave no space for the bars')
  const step = beside ? ROW : ROW + 36
  for (const [index, { name, share, from = 0, value, tone = 'path' }] of bars.entries()) {
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

/**
 * The probability of each rule of a KUBE-SVC- chain with n endpoints: 1/n, 1/(n-1) … of the remaining packets, so an equal
 * share.
 */
export function choiceBars(endpoints: number): Bar[] {
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

/** The distribution over Pods when each node gets the same share and balances only over its own Pods. */
export function localShares(podsOfNodes: readonly number[]): Bar[] {
  const answering = podsOfNodes.filter((pods) => pods > 0).length
  return podsOfNodes.flatMap((pods, node) =>
    Array.from({ length: pods }, (_, pod) => {
      const share = 1 / answering / pods
      return {
        name: `node ${node + 1}, Pod ${pod + 1}`,
        share,
        value: `${Math.round(share * 1000) / 10} %`,
        tone: node % 2 === 0 ? ('path' as const) : ('strong' as const),
      }
    }),
  )
}

/** The number of answers of each backend; the longest bar is the most frequent one. */
export function countBars(counts: Readonly<Record<string, number>>): Bar[] {
  const entries = Object.entries(counts).sort(([one], [other]) => one.localeCompare(other))
  const all = entries.reduce((sum, [, count]) => sum + count, 0)
  return entries.map(([name, count]) => ({ name, share: count / all, value: `${count} of ${all}` }))
}
