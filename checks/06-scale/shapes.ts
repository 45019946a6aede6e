import { isFlatComparedTo, median, quantile, rises, type ShapeVerdict } from '../../course/scale/growth.ts'
import { type Measurement, type Quantity, seriesOf } from '../../course/scale/measurement.ts'
import { lastServiceSlowdown } from '../../course/scale/table.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { Failure, NotApplicable, Trouble } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'
import { expectRun, measuredRun, SHOW } from './run.ts'

/** A claim about a quantity in one mode, its result, and the figures as text. */
interface Shape {
  wanted: 'a rising curve' | 'a flat curve'
  finding: ShapeVerdict
  seen: string
}

const described = {
  changeMs: ['the time to change one Service', 'ms', 1],
  newMoreMicros: ['what a new connection to the last Service took more than to the first', 'µs', 1],
  keptMoreMicros: ['what a kept-alive request to the last took more than to the first', 'µs', 1],
  busyMore: ['what new connections to the last took more of the CPU than to the first', '%', 100],
} as const satisfies Partial<Record<Quantity, readonly [what: string, unit: string, times: number]>>
type Judged = keyof typeof described

/** The medians at all sizes, each with the range of the middle half of the values. */
function figures(run: Measurement, mode: SwitchedMode, quantity: Judged): string {
  const [what, unit, times] = described[quantity]
  const points = seriesOf(run[mode], quantity).map(({ size, values }) => {
    const [low, middle, high] = [0.25, 0.5, 0.75].map((part) => (quantile(values, part) * times).toPrecision(3))
    return `${size}: ${middle} (${low} to ${high})`
  })
  return `${what} in ${mode} mode (${unit}) at ${points.join(', ')}`
}

/** In that mode the quantity is flat compared to the rise in iptables mode. */
const flat = (run: Measurement, mode: SwitchedMode, quantity: Judged, beside = quantity): Shape => ({
  wanted: 'a flat curve',
  finding: isFlatComparedTo(seriesOf(run[mode], quantity), seriesOf(run.iptables, beside)),
  seen: figures(run, mode, quantity),
})

/** Rises below these fractions, of the first change and of a complete connection, are ignored. */
const NO_RISE = { changeMs: 0.1, newMoreMicros: 0.002, busyMore: 0.002 }
const LEVEL = { changeMs: 'changeMs', newMoreMicros: 'newMicros', busyMore: 'busy' } as const

/** A quantity in both modes: it rises with iptables, and is flat compared to that with IPVS. */
export function risingAgainstFlat(run: Measurement, quantity: keyof typeof NO_RISE): Shape[] {
  const least = NO_RISE[quantity] * median(run.iptables[0]?.[LEVEL[quantity]] ?? [])
  const finding = rises(seriesOf(run.iptables, quantity), least)
  const list: Shape = { wanted: 'a rising curve', finding, seen: figures(run, 'iptables', quantity) }
  return [list, flat(run, 'ipvs', quantity)]
}

/** Kept-alive requests: flat in both modes, compared to the rise of new connections in iptables mode. */
export const keptAliveFlat = (run: Measurement): Shape[] =>
  (['iptables', 'ipvs'] as const).map((mode) => flat(run, mode, 'keptMoreMicros', 'newMoreMicros'))

/** The maximum variation between sizes of work that is independent of Services. If it is larger, the machine was too busy. */
const UNSTEADY = 0.25

/** The variation of fixed work: 0.1 means 10% longer at the slowest size than at the fastest. */
function unsteadiness(run: Measurement, mode: SwitchedMode): number {
  const medians = run[mode].map(({ workMicros }) => median(workMicros))
  return Math.max(...medians) / Math.min(...medians) - 1
}

/** A wrong shape fails only if the machine was idle enough; a shape hidden by noise is Trouble, never a failure. */
function judgeShapes(run: Measurement, shapes: readonly Shape[]): void {
  const open = shapes.filter(({ finding }) => finding !== 'holds')
  const [first] = open
  if (!first) return
  const unsteady = Math.max(unsteadiness(run, 'iptables'), unsteadiness(run, 'ipvs'))
  const again = 'Run make measure again on a quieter machine, or with a larger MAX.'
  if (unsteady > UNSTEADY)
    throw new Trouble(
      `the machine was too busy: the same work took up to ${(unsteady * 100).toFixed(0)} % longer at one size. ${again}`,
    )
  const wrong = open.find(({ finding }) => finding === 'wrong')
  if (!wrong) throw new Trouble(`the noise hides whether it is ${first.wanted}: ${first.seen}. ${again}`)
  expectRun(false, { expected: wrong.wanted, actual: wrong.seen, hint: again })
}

const isNote = (value: unknown): value is object => typeof value === 'object' && value !== null

/**
 * A check of shapes of the run. Once it passed on the live cluster it remains passed, independent of later runs; a capture is
 * judged by the run in it.
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

/** The smallest increase that counts as noticeable. */
const NOTICEABLE = 0.1

/**
 * The first size at which a new connection with iptables to the last Service took over 10% longer; "none" if there is none.
 */
export async function turningPoint(context: CheckContext): Promise<Truth> {
  const first = lastServiceSlowdown((await measuredRun(context)).iptables).find(({ part }) => part > NOTICEABLE)
  return { accepts: [first === undefined ? 'none' : String(first.services)], inspect: SHOW }
}
