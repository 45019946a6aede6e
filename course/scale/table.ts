import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { type Measurement, median, type Point } from './measurement.ts'

/** Published measurements, made on other machines with other rates and clients. */
export const published: { cpuPercent: Record<SwitchedMode, number>; smallBelow: number } = {
  cpuPercent: { iptables: 35, ipvs: 8 },
  smallBelow: 1000,
}

/** The notes below the figures: their source, published figures, and what does not apply to other machines. */
export function scaleRemarks({ at, machine, endpoints, rate, seconds }: Measurement): string[] {
  const { cpuPercent, smallBelow } = published
  return [
    `Measured ${at.slice(0, 10)} in ${seconds} s on ${machine}.`,
    `${endpoints} endpoints for each Service, a real Pod behind the first and the last; CPU at ${rate} new connections a second.`,
    `Published elsewhere: almost no difference below ${smallBelow} Services (10,000 Pods), and none with keep-alive;`,
    `at 10,000 Services iptables mode uses about ${cpuPercent.iptables} % more of a core, IPVS mode about ${cpuPercent.ipvs} %.`,
    'Valid elsewhere: which curve rises and which is flat. Not valid elsewhere: seconds, percentages and where the curves separate.',
    'This kernel runs as a program on another kernel and is slower in every respect; the table shows the work of the kernel,',
    'without the computation of kube-proxy itself, which in IPVS mode compares every Service in every sync.',
  ]
}

type Cell = (point: Point) => string

const digits = (value: number) => value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2)
const middle = (values: readonly number[]) => digits(median(values))
const percent = (values: readonly number[]) => (median(values) * 100).toFixed(1)

const rows: readonly (readonly [string, Cell])[] = [
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

const modes: readonly (readonly [SwitchedMode, string])[] = [
  ['iptables', 'iptables'],
  ['ipvs', 'IPVS'],
]

/**
 * The additional duration of a new connection to the last Service relative to the first, at each size: 0.1 is
 * 10%, rounded to 0.1%.
 */
export const lastServiceSlowdown = (points: readonly Point[]): { services: number; part: number }[] =>
  points.map(({ services, newMicros, newMoreMicros }) => {
    const more = median(newMoreMicros)
    return { services, part: Math.round((more / (median(newMicros) - more)) * 1000) / 1000 }
  })

/** The measurement as a table: a column for each size, and a row for each quantity and mode. */
export function measurementTable(run: Measurement): string[] {
  const sizes = run.iptables.map(({ services }) => String(services))
  const table = [
    ['Services', '', ...sizes],
    ...rows.flatMap(([name, cell]) =>
      modes.map(([mode, label], index) => [index === 0 ? name : '', label, ...run[mode].map(cell)]),
    ),
  ]
  const widths = (table[0] ?? []).map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0)))
  return table.map((row) =>
    row
      .map((text, column) => (column < 2 ? text.padEnd(widths[column] ?? 0) : text.padStart(widths[column] ?? 0)))
      .join('  ')
      .trimEnd(),
  )
}
