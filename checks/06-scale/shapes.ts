import {
  fitLine,
  growsLinearly,
  isEnough,
  isFlatBeside,
  median,
  type ShapeVerdict,
  unsteadiness,
} from '../../course/scale/growth.ts'
import { type Measurement, type Quantity, seriesOf } from '../../course/scale/measurement.ts'
import { dearerBy } from '../../course/scale/table.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { Failure, NotApplicable, Trouble } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'
import { expectRun, measuredRun, SHOW } from './run.ts'

/** What a shape was looked for in, and what came of it. */
export interface Shape {
  mode: SwitchedMode
  wanted: 'linear' | 'flat'
  finding: ShapeVerdict
  /** In words, with the figures. */
  seen: string
}

const names: Record<Quantity, { what: string; unit: string; times: number }> = {
  changeMs: { what: 'the time to change one Service', unit: 'ms', times: 1 },
  newMoreMicros: {
    what: 'what a new connection to the last Service took more than to the first',
    unit: 'µs',
    times: 1,
  },
  keptMoreMicros: { what: 'what a kept-alive request to the last took more than to the first', unit: 'µs', times: 1 },
  workMicros: { what: 'fixed work', unit: 'µs', times: 1 },
  busyMore: { what: 'what new connections to the last took more of the CPU than to the first', unit: '%', times: 100 },
}

/** Work that has nothing to do with Services may vary by so much between sizes before the machine is to blame. */
const UNSTEADY = 0.25

/** A quantity in both modes: a straight line with iptables, flat beside it with IPVS. */
export function linearAgainstFlat(run: Measurement, quantity: 'changeMs' | 'newMoreMicros' | 'busyMore'): Shape[] {
  const yardstick = riseOf(run, 'iptables', quantity)
  return [
    shape(run, 'iptables', quantity, 'linear', growsLinearly(seriesOf(run.iptables, quantity), besides(run, quantity))),
    shape(run, 'ipvs', quantity, 'flat', isFlatBeside(seriesOf(run.ipvs, quantity), yardstick)),
  ]
}

/** Below this part of a whole connection nobody can be sure that a difference is none. */
const UNSEEN = 0.1

/** What a rise is small beside: a difference has no level of its own. */
function besides({ iptables }: Measurement, quantity: Quantity): number | undefined {
  const [first] = iptables
  if (!first || quantity === 'changeMs') return undefined
  return UNSEEN * median(quantity === 'busyMore' ? first.busy : first.newMicros)
}

/** Kept-alive requests: flat in both modes, beside what new connections gained in iptables mode. */
export function keptAliveFlat(run: Measurement): Shape[] {
  const yardstick = riseOf(run, 'iptables', 'newMoreMicros')
  return (['iptables', 'ipvs'] as const).map((mode) =>
    shape(run, mode, 'keptMoreMicros', 'flat', isFlatBeside(seriesOf(run[mode], 'keptMoreMicros'), yardstick)),
  )
}

function riseOf(run: Measurement, mode: SwitchedMode, quantity: Quantity): number {
  const series = seriesOf(run[mode], quantity)
  return isEnough(series) ? fitLine(series).rise : Number.NaN
}

function shape(
  run: Measurement,
  mode: SwitchedMode,
  quantity: Quantity,
  wanted: Shape['wanted'],
  finding: ShapeVerdict,
): Shape {
  const series = seriesOf(run[mode], quantity)
  const { what, unit, times } = names[quantity]
  const points = series.map(({ size, values }) => `${size}: ${(median(values) * times).toPrecision(3)}`).join(', ')
  return { mode, wanted, finding, seen: `${what} in ${mode} mode (${unit}) at ${points}` }
}

/**
 * Ends a check by what the shapes came to: a wrong one fails only when the machine was steady, and what can't be told is
 * trouble, never a failure.
 */
function judgeShapes(run: Measurement, shapes: readonly Shape[]): void {
  const open = shapes.filter(({ finding }) => finding !== 'holds')
  const [first] = open
  if (!first) return
  const unsteady = Math.max(
    unsteadiness(seriesOf(run.iptables, 'workMicros')),
    unsteadiness(seriesOf(run.ipvs, 'workMicros')),
  )
  const again = 'Run make measure again on a quieter machine, or with a larger MAX.'
  if (unsteady > UNSTEADY)
    throw new Trouble(
      `the machine was too busy: the same work took up to ${(unsteady * 100).toFixed(0)} % longer at one size. ${again}`,
    )
  const wrong = open.find(({ finding }) => finding === 'wrong')
  if (!wrong) throw new Trouble(`the noise hides whether it is ${first.wanted}: ${first.seen}. ${again}`)
  expectRun(false, {
    expected: `${wrong.wanted === 'flat' ? 'a flat curve' : 'a straight line that rises'}`,
    actual: wrong.seen,
    hint: again,
  })
}

const isNote = (value: unknown): value is object => typeof value === 'object' && value !== null

/**
 * A check that looks at shapes of the run. Once they were seen on the live cluster they hold, whatever a later run shows; a capture
 * is judged by the run in it.
 */
export const shapesOf = (note: string, shapes: (run: Measurement) => Shape[]) => async (context: CheckContext) => {
  const { live, notes } = context
  const seenBefore = notes.read(note, isNote) !== undefined
  if (live && seenBefore) return
  const run = await measuredRun(context)
  const found = shapes(run)
  context.show(found.map(({ wanted, finding, seen }) => `${wanted}, ${finding}: ${seen}`))
  try {
    judgeShapes(run, found)
  } catch (error) {
    if (!seenBefore || !(error instanceof Failure)) throw error
    throw new NotApplicable('it held in a run that a later one has replaced')
  }
  notes.keep(note, { measured: run.at, seen: found.map(({ seen }) => seen) })
}

/** From here on the list is noticed. */
const NOTICEABLE = 0.1

/** The first size at which a new connection with iptables took over ten per cent longer to the last Service; "none" when there is none. */
export async function turningPoint(context: CheckContext): Promise<Truth> {
  const first = dearerBy((await measuredRun(context)).iptables).find(({ part }) => part > NOTICEABLE)
  return { accepts: [first === undefined ? 'none' : String(first.services)], look: SHOW }
}
