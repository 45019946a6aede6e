import { isMeasurement, type Measurement, type Point } from '../../course/scale/measurement.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { Mutation } from './mutation.ts'

/** A change of a run as `make measure` keeps it. */
export interface RunChange extends Pick<Mutation, 'operator' | 'detail' | 'words'> {
  change: (run: Measurement) => Measurement
}

const MODES = ['iptables', 'ipvs'] as const
const COUNTS = ['rules', 'entries', 'members', 'virtualServers', 'realServers'] as const

/** Every single count of a run, off by one; both modes' columns exchanged; and too little of it. */
export function* runChanges(run: Measurement): Generator<RunChange> {
  for (const mode of MODES)
    for (const [index, point] of run[mode].entries())
      for (const count of COUNTS) {
        const found = point[count] + 1
        const detail = `${count} of ${point.services} Services in ${mode} mode`
        const change = (of: Measurement) => withPoint(of, mode, index, { [count]: found })
        yield { operator: 'alter count', detail, words: [`${found}`], change }
      }
  const exchanged = ({ iptables, ipvs, ...rest }: Measurement) => ({ ...rest, iptables: ipvs, ipvs: iptables })
  yield { operator: 'exchange modes', detail: 'iptables, ipvs', words: ['rules', 'mode'], change: exchanged }
  const short = (of: Measurement) => ({ ...of, iptables: of.iptables.slice(0, 2), ipvs: of.ipvs.slice(0, 2) })
  yield { operator: 'drop sizes', detail: 'all but two', words: ['sizes'], change: short }
  const once = (points: Point[]) =>
    points.map((point) => ({ ...point, newMoreMicros: point.newMoreMicros.slice(0, 1) }))
  const hasty = (of: Measurement) => ({ ...of, iptables: once(of.iptables) })
  yield { operator: 'drop values', detail: 'newMoreMicros', words: ['newMoreMicros'], change: hasty }
}

/** The run that a note holds; undefined when it holds none. */
export function readRun(text: string): Measurement | undefined {
  try {
    const run: unknown = JSON.parse(text)
    return isMeasurement(run) ? run : undefined
  } catch {
    return undefined
  }
}

function withPoint(run: Measurement, mode: SwitchedMode, index: number, change: Partial<Point>): Measurement {
  const points = run[mode].map((point, at) => (at === index ? { ...point, ...change } : point))
  return { ...run, [mode]: points }
}
