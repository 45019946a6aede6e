import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { median } from './growth.ts'
import type { Measurement, Point } from './measurement.ts'

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
  ['  of it CPU', ({ programCpuMs }) => digits(programCpuMs)],
  ['to change one (ms)', ({ changeMs }) => middle(changeMs)],
  ['  of it CPU', ({ changeCpuMs }) => middle(changeCpuMs)],
  ['new connection (µs)', ({ newMicros }) => middle(newMicros)],
  ['  more than to the first', ({ newMoreMicros }) => middle(newMoreMicros)],
  ['  slower by (%)', (point) => ((dearerBy([point])[0]?.part ?? 0) * 100).toFixed(1)],
  ['kept-alive (µs)', ({ keptMicros }) => middle(keptMicros)],
  ['  more than to the first', ({ keptMoreMicros }) => middle(keptMoreMicros)],
  ['CPU at a fixed rate (%)', ({ busy }) => percent(busy)],
  ['  more than to the first', ({ busyMore }) => percent(busyMore)],
]

const modes: readonly (readonly [SwitchedMode, string])[] = [
  ['iptables', 'iptables'],
  ['ipvs', 'IPVS'],
]

/** By how much a new connection to the last Service took longer than one to the first, at each size: 0.1 is ten per cent, to a tenth of one. */
export const dearerBy = (points: readonly Point[]): { services: number; part: number }[] =>
  points.map(({ services, newMicros, newMoreMicros }) => {
    const more = median(newMoreMicros)
    return { services, part: Math.round((more / (median(newMicros) - more)) * 1000) / 1000 }
  })

/** What was measured, in lines for people: a column for each size, the two modes beneath each other. */
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
