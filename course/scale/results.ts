// A run of `make measure` for people: the table, the remarks below it, and the diagram.

import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { type HostMeasurement, type Measurement, median, type Point } from './measurement.ts'
import type { MeasuredCurve } from './measuring-node.ts'

/** Published measurements, made on other machines with other rates and clients. */
export const published: { cpuPercent: Record<SwitchedMode, number>; smallBelow: number } = {
  cpuPercent: { iptables: 35, ipvs: 8 },
  smallBelow: 1000,
}

/**
 * The notes below the figures: their source, published figures, and what does not apply to other
 * machines.
 */
export function scaleRemarks(run: Measurement | HostMeasurement): string[] {
  const { at, machine, endpoints, rate, seconds } = run
  const { cpuPercent, smallBelow } = published
  return [
    `Measured ${at.slice(0, 10)} in ${seconds} s on ${machine}.`,
    `${endpoints} endpoints for each Service, a real Pod behind the first and the last; CPU at ${rate} new connections a second.`,
    ...('curves' in run
      ? [
          'Rules are written in parts that an ordinary user may send at once; kube-proxy writes all of them at once, in less time.',
          'Valid elsewhere: which curve rises and which is flat. Not valid elsewhere: seconds and percentages.',
          'The times to change one include those of the programs iptables-restore and nft, which look at what is there first.',
        ]
      : [
          `Published elsewhere (Tigera, 2019): almost no difference below ${smallBelow} Services (10,000 Pods), none with keep-alive;`,
          `at 10,000 Services iptables mode uses about ${cpuPercent.iptables} % more of a core, IPVS mode about ${cpuPercent.ipvs} % more, than with none.`,
          'Valid elsewhere: which curve rises and which is flat. Not valid elsewhere: seconds, percentages and where the curves separate.',
          'This kernel runs as a program on another kernel and is slower in every respect; the table shows the work of the kernel,',
          'without the computation of kube-proxy itself, which in IPVS mode compares every Service in every sync.',
        ]),
  ]
}

const colours: Record<MeasuredCurve, string> = {
  iptables: '#b3261e',
  'iptables-legacy': '#b3261e',
  'iptables-nft': '#9a6700',
  ipvs: '#1a5fb4',
  nftables: '#26734d',
}

const label = (curve: MeasuredCurve): string => (curve === 'ipvs' ? 'IPVS' : curve)

/** A curve as progress names it. */
export const curveTitle = (curve: MeasuredCurve): string =>
  curve.startsWith('iptables-') ? label(curve) : `${label(curve)} mode`

/** The curves of a run, in the order in which they are shown. */
const curvesOf = (
  run: Measurement | HostMeasurement,
): { curve: MeasuredCurve; points: Point[] }[] =>
  'curves' in run
    ? run.curves
    : [
        { curve: 'iptables', points: run.iptables },
        { curve: 'ipvs', points: run.ipvs },
      ]

/** The numbers of Services of a run. */
export const sizesOf = (run: Measurement | HostMeasurement): number[] =>
  (curvesOf(run)[0]?.points ?? []).map(({ services }) => services)

type PointCell = (point: Point) => string

const digits = (value: number) =>
  value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2)
const middle = (values: readonly number[]) => digits(median(values))
const percent = (values: readonly number[]) => (median(values) * 100).toFixed(1)

const rows: readonly (readonly [string, PointCell])[] = [
  ['rules', ({ rules }) => String(rules)],
  ['set members', ({ members }) => String(members)],
  ['virtual servers', ({ virtualServers }) => String(virtualServers)],
  ['real servers', ({ realServers }) => String(realServers)],
  ['to program (ms)', ({ programMs }) => digits(programMs)],
  ['  CPU time', ({ programCpuMs }) => digits(programCpuMs)],
  ['to change one (ms)', ({ changeMs }) => middle(changeMs)],
  ['  CPU time', ({ changeCpuMs }) => middle(changeCpuMs)],
  ['new connection (µs)', ({ newMicros }) => middle(newMicros)],
  ['  more than to the first', ({ newMoreMicros }) => middle(newMoreMicros)],
  ['  slower by (%)', (point) => ((lastServiceSlowdown([point])[0]?.part ?? 0) * 100).toFixed(1)],
  ['kept-alive (µs)', ({ keptMicros }) => middle(keptMicros)],
  ['  more than to the first', ({ keptMoreMicros }) => middle(keptMoreMicros)],
  ['CPU at a fixed rate (%)', ({ busy }) => percent(busy)],
  ['  more than to the first', ({ busyMore }) => percent(busyMore)],
]

/**
 * The additional duration of a new connection to the last Service relative to the first, at each
 * size: 0.1 is 10%, rounded to 0.1%.
 */
export const lastServiceSlowdown = (
  points: readonly Point[],
): { services: number; part: number }[] =>
  points.map(({ services, newMicros, newMoreMicros }) => {
    const more = median(newMoreMicros)
    return { services, part: Math.round((more / (median(newMicros) - more)) * 1000) / 1000 }
  })

/** The parts of the table that are shown alone, with the beginnings of their rows. */
const parts: Readonly<Record<string, readonly string[]>> = {
  rules: ['rules', 'set members', 'virtual servers', 'real servers'],
  program: ['to program'],
  change: ['to change one'],
  lookup: ['new connection'],
  'keep-alive': ['kept-alive'],
  cpu: ['CPU at a fixed rate'],
}

/** The names of the parts of the table. */
export const tableParts: readonly string[] = Object.keys(parts)

/** The rows of a part, each with those that are indented below it; all rows without a part. */
function rowsOf(part: string | undefined): typeof rows {
  const wanted = part === undefined ? undefined : parts[part]
  if (!wanted) return rows
  let isIn = false
  return rows.filter(([name]) => {
    if (!name.startsWith(' ')) isIn = wanted.some((beginning) => name.startsWith(beginning))
    return isIn
  })
}

/**
 * The measurement as a table: a column for each size, and a row for each quantity and mode; with
 * `part` only the rows of one of `tableParts`.
 */
export function measurementTable(run: Measurement | HostMeasurement, part?: string): string[] {
  const table = [
    ['Services', '', ...sizesOf(run).map(String)],
    ...rowsOf(part)
      .filter(([name]) => !('curves' in run && name.endsWith('servers')))
      .flatMap(([name, cell]) =>
        curvesOf(run).map(({ curve, points }, index) => [
          index === 0 ? name : '',
          label(curve),
          ...points.map(cell),
        ]),
      ),
  ]
  const widths = (table[0] ?? []).map((_, column) =>
    Math.max(...table.map((row) => row[column]?.length ?? 0)),
  )
  return table.map((row) =>
    row
      .map((text, column) =>
        column < 2 ? text.padEnd(widths[column] ?? 0) : text.padStart(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd(),
  )
}

/** One small chart: a quantity over the number of Services, all curves. */
interface ResultChart {
  title: string
  unit: string
  value(point: Point): number
  /** Another quantity that must fit on the same axis, so that two charts can be compared. */
  sharedScale?(point: Point): number
}

const newMore = ({ newMoreMicros }: Point) => median(newMoreMicros)
const keptMore = ({ keptMoreMicros }: Point) => median(keptMoreMicros)

const panels: readonly ResultChart[] = [
  { title: 'Rules', unit: 'rules', value: ({ rules }) => rules },
  { title: 'Programming an empty node', unit: 'ms', value: ({ programMs }) => programMs },
  { title: 'Changing one Service', unit: 'ms', value: ({ changeMs }) => median(changeMs) },
  { title: 'New connection', unit: 'µs', value: ({ newMicros }) => median(newMicros) },
  { title: 'Kept-alive request', unit: 'µs', value: ({ keptMicros }) => median(keptMicros) },
  { title: 'CPU at a fixed rate', unit: '% of a core', value: ({ busy }) => median(busy) * 100 },
  { title: 'New: last minus first', unit: 'µs', value: newMore, sharedScale: keptMore },
  { title: 'Kept-alive: last minus first', unit: 'µs', value: keptMore, sharedScale: newMore },
]

const WIDTH = 300
const HEIGHT = 220
const HEAD = 40
const LINE = 18
const MARGIN = { left: 58, right: 24, top: 34, bottom: 40 }
const PLOT_HEIGHT = HEIGHT - MARGIN.top - MARGIN.bottom
const COLUMNS = 3

const escaped = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
const short = (value: number) =>
  Math.abs(value) >= 1000
    ? `${Number((value / 1000).toPrecision(3))}k`
    : `${Number(value.toPrecision(2))}`
const at = (value: number) => value.toFixed(1)

/**
 * The whole run as one SVG diagram: a chart for each quantity over the number of Services, with
 * both axes from zero, so that linear growth is a straight line. The text below names the machine
 * and the limits of the measurement.
 */
export function scalePlot(run: Measurement | HostMeasurement, remarks: readonly string[]): string {
  const rows = Math.ceil(panels.length / COLUMNS)
  const foot = HEAD + rows * HEIGHT
  const width = COLUMNS * WIDTH
  const height = foot + (remarks.length + 1) * LINE
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" fill="#222">`,
    `<title>${curvesOf(run)
      .map(({ curve }) => curveTitle(curve))
      .join(', ')} at growing numbers of Services</title>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    legend(curvesOf(run).map(({ curve }) => curve)),
    ...panels.map(
      (panel, index) =>
        `<g transform="translate(${(index % COLUMNS) * WIDTH} ${HEAD + Math.floor(index / COLUMNS) * HEIGHT})">${chart(run, panel)}</g>`,
    ),
    ...remarks.map(
      (remark, index) => `<text x="14" y="${foot + index * LINE + 8}">${escaped(remark)}</text>`,
    ),
    '</svg>',
    '',
  ].join('\n')
}

const legend = (curves: readonly MeasuredCurve[]) =>
  curves
    .map((curve, index) => {
      const x = 58 + index * 170
      return `<path d="M${x} 22h30" stroke="${colours[curve]}" stroke-width="3"/><text x="${x + 38}" y="27" font-size="15">${label(curve)}</text>`
    })
    .join('')

function chart(
  run: Measurement | HostMeasurement,
  { title, unit, value, sharedScale = value }: ResultChart,
): string {
  const curves = curvesOf(run)
  const sizes = sizesOf(run)
  const all = curves.flatMap(({ points }) =>
    points.flatMap((point) => [value(point), sharedScale(point)]),
  )
  const [bottom, top] = [Math.min(0, ...all), Math.max(...all) || 1]
  const y = (amount: number) =>
    HEIGHT - MARGIN.bottom - ((amount - bottom) / (top - bottom)) * PLOT_HEIGHT
  // A little below zero there is no room for another label.
  const ticks = [bottom, 0, top / 2, top].filter((tick, index) => index > 0 || tick < -top / 4)
  const largest = Math.max(...sizes)
  const x = (size: number) => MARGIN.left + (size / largest) * (WIDTH - MARGIN.left - MARGIN.right)
  return [
    `<text x="${MARGIN.left}" y="20" font-weight="bold">${title} (${unit})</text>`,
    ...ticks.map(
      (tick) =>
        `<path d="M${MARGIN.left} ${at(y(tick))}H${WIDTH - MARGIN.right}" stroke="${tick === 0 ? '#888' : '#ddd'}"/><text x="${MARGIN.left - 6}" y="${at(y(tick) + 4)}" text-anchor="end">${short(tick)}</text>`,
    ),
    // The labels of smaller sizes would overlap.
    ...sizes
      .filter((size) => size > largest / 8)
      .map(
        (size) =>
          `<text x="${at(x(size))}" y="${HEIGHT - 22}" text-anchor="middle">${short(size)}</text>`,
      ),
    ...curves.map(({ curve, points }) =>
      polyline(
        points.map((point) => [x(point.services), y(value(point))]),
        colours[curve],
      ),
    ),
  ].join('')
}

function polyline(points: readonly (readonly [number, number])[], colour: string): string {
  const path = points.map(([x, y]) => `${at(x)} ${at(y)}`).join('L')
  const dots = points.map(
    ([x, y]) => `<circle cx="${at(x)}" cy="${at(y)}" r="3" fill="${colour}"/>`,
  )
  return `<path d="M${path}" fill="none" stroke="${colour}" stroke-width="2"/>${dots.join('')}`
}
