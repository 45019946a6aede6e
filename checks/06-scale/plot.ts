import { median } from './growth.ts'
import type { MeasuredMode, Measurement, Point } from './measurement.ts'

/** One small chart: a quantity over the number of Services, both modes. */
interface Panel {
  title: string
  unit: string
  value(point: Point): number
}

const panels: readonly Panel[] = [
  { title: 'Rules of iptables', unit: 'rules', value: ({ rules }) => rules },
  { title: 'To change one Service', unit: 'ms', value: ({ changeMs }) => median(changeMs) },
  { title: 'Request, new connection', unit: 'µs', value: ({ newMicros }) => median(newMicros) },
  { title: 'Request, kept-alive', unit: 'µs', value: ({ keptMicros }) => median(keptMicros) },
  { title: 'CPU at a fixed rate', unit: '% of a core', value: ({ busy }) => median(busy) * 100 },
]

const WIDTH = 300
const HEIGHT = 220
const MARGIN = { left: 58, right: 14, top: 34, bottom: 40 }
const COLUMNS = 3
const colours: Record<MeasuredMode, string> = { iptables: '#b3261e', ipvs: '#1a5fb4' }
const labels: Record<MeasuredMode, string> = { iptables: 'iptables', ipvs: 'IPVS' }
const modes = ['iptables', 'ipvs'] as const

const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
const short = (value: number) =>
  value >= 1000 ? `${Number((value / 1000).toPrecision(3))}k` : `${Number(value.toPrecision(2))}`

/**
 * The whole run as one SVG picture: a chart for each quantity, Services on a logarithmic axis, the measured quantity on one that
 * begins at zero. Beneath stand the machine, what others have published and what of this does not carry over.
 */
export function scalePlot(run: Measurement, remarks: readonly string[]): string {
  const rows = Math.ceil((panels.length + 1) / COLUMNS)
  const width = COLUMNS * WIDTH
  const height = rows * HEIGHT + 24 + remarks.length * 18
  const charts = panels.map((panel, index) => group(index, chart(run, panel)))
  const notes = remarks.map(
    (remark, index) => `<text x="14" y="${rows * HEIGHT + 24 + index * 18}">${escaped(remark)}</text>`,
  )
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" fill="#222">`,
    '<title>iptables and IPVS mode at growing numbers of Services</title>',
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    ...charts,
    group(panels.length, legend()),
    ...notes,
    '</svg>',
    '',
  ].join('\n')
}

const group = (index: number, content: string) =>
  `<g transform="translate(${(index % COLUMNS) * WIDTH} ${Math.floor(index / COLUMNS) * HEIGHT})">${content}</g>`

const legend = () =>
  modes
    .map((mode, index) => {
      const y = 60 + index * 26
      return `<path d="M40 ${y}h36" stroke="${colours[mode]}" stroke-width="3"/><text x="86" y="${y + 4}" font-size="15">${labels[mode]}</text>`
    })
    .join('')

function chart(run: Measurement, { title, unit, value }: Panel): string {
  const sizes = run.iptables.map(({ services }) => services)
  const all = modes.flatMap((mode) => run[mode].map(value))
  const top = Math.max(...all) * 1.1 || 1
  const [first = 1, last = 1] = [Math.min(...sizes), Math.max(...sizes)].map((size) => Math.log10(Math.max(1, size)))
  const x = (size: number) =>
    MARGIN.left + ((Math.log10(Math.max(1, size)) - first) / (last - first || 1)) * (WIDTH - MARGIN.left - MARGIN.right)
  const y = (amount: number) => HEIGHT - MARGIN.bottom - (amount / top) * (HEIGHT - MARGIN.top - MARGIN.bottom)
  const ticks = [0, 0.5, 1].map((part) => part * (top / 1.1))
  const right = WIDTH - MARGIN.right
  return [
    `<text x="${MARGIN.left}" y="20" font-weight="bold">${escaped(`${title} (${unit})`)}</text>`,
    ...ticks.map(
      (tick) =>
        `<path d="M${MARGIN.left} ${at(y(tick))}H${right}" stroke="#ddd"/><text x="${MARGIN.left - 6}" y="${at(y(tick) + 4)}" text-anchor="end">${short(tick)}</text>`,
    ),
    ...sizes.map((size) => `<text x="${at(x(size))}" y="${HEIGHT - 22}" text-anchor="middle">${short(size)}</text>`),
    ...modes.map((mode) =>
      curve(
        run[mode].map((point) => [x(point.services), y(value(point))]),
        colours[mode],
      ),
    ),
  ].join('')
}

const at = (value: number) => value.toFixed(1)

function curve(points: readonly (readonly [number, number])[], colour: string): string {
  const path = points.map(([x, y]) => `${at(x)} ${at(y)}`).join('L')
  const dots = points.map(([x, y]) => `<circle cx="${at(x)}" cy="${at(y)}" r="3" fill="${colour}"/>`)
  return `<path d="M${path}" fill="none" stroke="${colour}" stroke-width="2"/>${dots.join('')}`
}
