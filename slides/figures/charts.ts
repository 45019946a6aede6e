import {
  countState,
  MEASURED_NODE,
  MEASURED_VERSION,
  syntheticCluster,
} from '../../course/scale/synthetic-cluster.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { readObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'
import { type Figure, figure, TEXT, type Tone, textWidth } from './canvas.ts'

/** One bar: its share of the whole (0 to 1), its start, and the label at its end. */
export interface Bar {
  name: string
  share: number
  from?: number
  value: string
  tone?: Tone
}

/** The measures of bars in px; `top` and `baseline` (of the name) are from the top of a row. */
interface BarRows {
  left: number
  step: number
  top: number
  height: number
  baseline: number
}

/** In a tall figure each bar is below its name. */
const BELOW_NAMES: BarRows = { left: 0, step: 108, top: 36, height: 52, baseline: 26 }

/** In a wide figure the bars are beside their names. */
function barsBesideNames(bars: readonly Bar[]): BarRows {
  const step = Math.min(108, 400 / bars.length)
  const height = step * 0.72
  const left = Math.ceil(widestText(bars.map(({ name }) => name))) + 20
  return { left, step, top: 0, height, baseline: height / 2 + 10 }
}

const widestText = (texts: readonly string[]): number =>
  Math.max(...texts.map((text) => textWidth(text, TEXT)))

/**
 * Horizontal bars, one below the other, all on the same scale; the one that ends last fills the
 * width, and the text alternative lists them. Throws Error for labels that leave no space.
 */
export function barsFigure(title: string, bars: readonly Bar[]): Figure {
  const whole = Math.max(...bars.map(({ from = 0, share }) => from + share))
  const label = `${title}: ${bars.map(({ name, value }) => `${name}, ${value}`).join('; ')}.`
  return figure(label, (canvas, isWide) => {
    const rows = isWide ? barsBesideNames(bars) : BELOW_NAMES
    const { left, step, height } = rows
    const room = canvas.width - left - Math.ceil(widestText(bars.map(({ value }) => value))) - 18
    if (room < 120) throw new Error('the names of the bars leave no space for the bars')
    for (const [index, { name, share, from = 0, value, tone = 'path' }] of bars.entries()) {
      const y = index * step
      const top = y + rows.top
      const middle = top + height / 2
      canvas.text(name, 0, y + rows.baseline)
      const x = left + (from / whole) * room
      const end = x + (share / whole) * room
      if (from > 0) canvas.bar({ x: left, y: middle - 3, width: x - left, height: 6 }, 'faint')
      canvas.bar({ x, y: top, width: end - x, height }, tone)
      canvas.text(value, end + 12, middle + 10)
    }
  })
}

/**
 * The probability of each rule of a KUBE-SVC- chain with n endpoints: 1/n, 1/(n-1) … of the
 * remaining packets, so an equal share.
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

/**
 * The distribution over Pods when each node gets the same share and balances only over its own
 * Pods.
 */
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

interface Mode {
  name: string
  /** Minor versions of Kubernetes 1.x: from its first release (or stable one) to its last. */
  spans: readonly { from: number; to: number; tone: Tone }[]
  note: string
}

const NEWEST = 37

/**
 * kube-proxy's modes by version. Sources: the release notes of 1.2 (iptables by default), 1.11
 * (IPVS stable), 1.26 (userspace removed), 1.33 (nftables stable), 1.35 (IPVS deprecated).
 */
const MODES: readonly Mode[] = [
  { name: 'userspace', spans: [{ from: 0, to: 26, tone: 'faint' }], note: 'removed in 1.26' },
  { name: 'iptables', spans: [{ from: 2, to: NEWEST, tone: 'path' }], note: 'default since 1.2' },
  {
    name: 'IPVS',
    spans: [
      { from: 11, to: 35, tone: 'strong' },
      { from: 35, to: NEWEST, tone: 'bad' },
    ],
    note: 'stable 1.11, deprecated 1.35',
  },
  { name: 'nftables', spans: [{ from: 33, to: NEWEST, tone: 'path' }], note: 'stable since 1.33' },
]

/** The versions whose labels the axis has room for. */
const TICKS = [0, 11, 26, NEWEST]

/** The measures of the history, whose bars are beside the names in a wide figure, else below. */
const WIDE_HISTORY = { left: 180, right: 460, step: 84, top: 0, baseline: 38, axis: 18 }
const TALL_HISTORY = { left: 0, right: 0, step: 110, top: 44, baseline: 30, axis: 24 }

/** The lifetime of each mode, on an axis of Kubernetes versions. */
export function modeHistoryFigure(): Figure {
  const label = `kube-proxy's modes: ${MODES.map(({ name, note }) => `${name}, ${note}`).join('; ')}.`
  return figure(label, (canvas, isWide) => {
    const { left, right, step, top, baseline, axis } = isWide ? WIDE_HISTORY : TALL_HISTORY
    const room = canvas.width - left - right
    const at = (version: number) => left + (version / NEWEST) * room
    for (const [index, { name, spans, note }] of MODES.entries()) {
      const y = index * step
      canvas.text(name, 0, y + baseline)
      for (const { from, to, tone } of spans)
        canvas.bar({ x: at(from), y: y + top, width: at(to) - at(from), height: 56 }, tone)
      if (isWide) canvas.text(note, canvas.width - 440, y + baseline)
      else canvas.text(note, canvas.width, y + baseline, { anchor: 'end' })
    }
    const bottom = MODES.length * step + axis
    if (isWide) canvas.text('version', 0, bottom, { tone: 'faint' })
    for (const version of TICKS)
      canvas.text(`1.${version}`, at(version), bottom, {
        anchor: tickAnchor(version),
        tone: 'faint',
      })
  })
}

/** The outermost labels stay within the axis. */
function tickAnchor(version: number): 'start' | 'middle' | 'end' {
  if (version === 0) return 'start'
  return version === NEWEST ? 'end' : 'middle'
}

const SIZES = [10, 500, 1000]
const HEIGHT = 330
const AXIS = 44
const largestSize = Math.max(...SIZES)
const thousands = (value: number) => value.toLocaleString('en')

/**
 * The predicted number of rules on a node over the number of Services, by mode; both axes are
 * linear and from zero, so that linear growth is a straight line. Throws Error for labels that do
 * not fit.
 */
export function ruleGrowthFigure(endpoints: number): Figure {
  const clusters = SIZES.map(
    (services) => readObjects(syntheticCluster(services, endpoints)).objects,
  )
  const rulesIn = (mode: SwitchedMode) =>
    clusters.map(
      (objects) =>
        countState(predict(objects, { node: MEASURED_NODE, mode, version: MEASURED_VERSION }))
          .rules,
    )
  const curves = [
    { name: 'iptables', rules: rulesIn('iptables'), tone: 'path' },
    { name: 'IPVS', rules: rulesIn('ipvs'), tone: 'strong' },
  ] as const
  const highest = Math.max(...curves.flatMap(({ rules }) => rules))
  const ends = curves.map(({ name, rules }) => `${rules.at(-1)} in ${name} mode`).join(', ')
  const label = `Rules on a node with ${largestSize} Services of ${endpoints} endpoints: ${ends}.`
  return figure(label, (canvas, isWide) => {
    const left = Math.ceil(textWidth(thousands(highest), TEXT)) + 14
    const right = isWide ? Math.ceil(widestText(curves.map(({ name }) => name))) + 24 : 16
    const width = canvas.width - left - right
    const top = isWide ? 14 : curves.length * 36 + 14
    const bottom = top + HEIGHT
    const x = (size: number) => left + (size / largestSize) * width
    const y = (value: number) => bottom - (value / highest) * HEIGHT
    canvas.bar({ x: left, y: top, width: 2, height: HEIGHT }, 'faint')
    canvas.bar({ x: left, y: bottom, width, height: 2 }, 'faint')
    canvas.text(thousands(highest), left - 10, top + 10, { anchor: 'end' })
    canvas.text('0', left - 10, bottom + 8, { anchor: 'end' })
    for (const size of SIZES)
      canvas.text(thousands(size), x(size), bottom + AXIS - 6, { anchor: sizeAnchor(size) })
    for (const [index, { name, rules, tone }] of curves.entries()) {
      const points = SIZES.map((size, at) => [x(size), y(rules[at] ?? 0)] as const)
      canvas.arrow(points, tone)
      if (isWide) canvas.text(name, x(largestSize) + 16, y(rules.at(-1) ?? 0) + 8, { tone })
      else canvas.text(name, left, index * 36 + 24, { tone })
    }
  })
}

/** The label of the largest size ends with the axis. */
const sizeAnchor = (size: number): 'middle' | 'end' => (size === largestSize ? 'end' : 'middle')
