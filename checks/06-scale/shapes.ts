// Lab 6: the plain shape of the measured times. Counts are graded exactly (run.ts); times are shown
// with their spread.

import * as z from 'zod'
import {
  largestPoint,
  type Measurement,
  median,
  type Point,
  type Quantity,
  quantile,
  riseOf,
  risesClearly,
  seriesOf,
} from '../../course/scale/measurement.ts'
import { lastServiceSlowdown } from '../../course/scale/results.ts'
import type { Check, CheckContext } from '../../grading/check-context.ts'
import { Failure, NotApplicable, Trouble } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'
import { expectRun, measuredRun } from './run.ts'

const described = {
  changeMs: ['the time to change one Service', 'ms', 1],
  newMoreMicros: ['what a new connection to the last Service took more than to the first', 'µs', 1],
  keptMoreMicros: ['what a kept-alive request to the last took more than to the first', 'µs', 1],
  busyMore: ['what new connections to the last took more of the CPU than to the first', '%', 100],
} as const satisfies Partial<Record<Quantity, readonly [what: string, unit: string, times: number]>>
type JudgedQuantity = keyof typeof described

/** One curve of a run, and how messages call it. */
export interface Curve {
  title: string
  points: readonly Point[]
}

const iptablesMode = ({ iptables }: Measurement): Curve => ({
  title: 'iptables mode',
  points: iptables,
})
const ipvsMode = ({ ipvs }: Measurement): Curve => ({ title: 'ipvs mode', points: ipvs })

/** The medians at all sizes, each with the range of the middle half of the values. */
function figures({ title, points }: Curve, quantity: JudgedQuantity): string {
  const [what, unit, times] = described[quantity]
  const medians = seriesOf(points, quantity).map(({ size, values }) => {
    const [low, middle, high] = [0.25, 0.5, 0.75].map((part) =>
      (quantile(values, part) * times).toPrecision(3),
    )
    return `${size}: ${middle} (${low} to ${high})`
  })
  return `${what} in ${title} (${unit}) at ${medians.join(', ')}`
}

/** A claim about a quantity in one mode. */
interface Shape {
  wanted: 'a rising curve' | 'a flat curve'
  /** `unclear`: the noise hides it, or the machine was busy. Only a flat curve can be `wrong`. */
  result: 'holds' | 'wrong' | 'unclear'
  figures: string
}

/** The quantity rises clearly. */
export const rising = (curve: Curve, quantity: JudgedQuantity): Shape => ({
  wanted: 'a rising curve',
  result: risesClearly(seriesOf(curve.points, quantity)) ? 'holds' : 'unclear',
  figures: figures(curve, quantity),
})

/** A curve is flat beside another one if it rises by less than this part of it. */
const FLAT = 0.25

/** Below this size no curve is `wrong`: a short list is traversed too fast to be measured. */
const LONG = 1000

/** The quantity is flat beside the rise of `yardstick` in the curve of a list. */
export function flat(
  curve: Curve,
  list: Curve,
  quantity: JudgedQuantity,
  yardstick = quantity,
): Shape {
  const series = seriesOf(curve.points, quantity)
  const listed = seriesOf(list.points, yardstick)
  const shape = (result: Shape['result']): Shape => {
    return { wanted: 'a flat curve', result, figures: figures(curve, quantity) }
  }
  if (!risesClearly(listed)) return shape('unclear')
  if (Math.abs(riseOf(series)) <= FLAT * riseOf(listed)) return shape('holds')
  const isLong = largestPoint(curve.points).services >= LONG
  const isWrong = risesClearly(series) && isLong && isSteady(curve) && isSteady(list)
  return shape(isWrong ? 'wrong' : 'unclear')
}

/**
 * The maximum variation between sizes of work that is independent of Services. If it is larger, the
 * machine was too busy.
 */
const UNSTEADY = 0.25

function isSteady({ points }: Curve): boolean {
  const medians = points.map(({ workMicros }) => median(workMicros))
  return Math.max(...medians) / Math.min(...medians) - 1 <= UNSTEADY
}

/** A quantity in both modes: it rises with iptables, and is flat compared to that with IPVS. */
export const risingAgainstFlat =
  (quantity: JudgedQuantity) =>
  (run: Measurement): Shape[] => [
    rising(iptablesMode(run), quantity),
    flat(ipvsMode(run), iptablesMode(run), quantity),
  ]

/**
 * Kept-alive requests: flat in both modes, compared to the rise of new connections in iptables
 * mode.
 */
export const keptAliveFlat = (run: Measurement): Shape[] =>
  [iptablesMode(run), ipvsMode(run)].map((mode) =>
    flat(mode, iptablesMode(run), 'keptMoreMicros', 'newMoreMicros'),
  )

/** A wrong shape fails; one that noise hides is Trouble, never a failure. */
function judgeShapes(shapes: readonly Shape[], again: string): void {
  const wrong = shapes.find(({ result }) => result === 'wrong')
  if (wrong)
    expectRun(false, {
      expected: wrong.wanted,
      actual: wrong.figures,
      hint: 'Measure again on a quieter machine, or with a larger MAX:',
      next: again,
    })
  const unclear = shapes.find(({ result }) => result === 'unclear')
  if (unclear)
    throw new Trouble(
      `the noise hides whether it is ${unclear.wanted}: ${unclear.figures}. Run \`${again}\` again on a quieter machine, or with a larger MAX.`,
    )
}

/** A run of a command, as it is stored in the cluster. */
interface StoredRun<Run> {
  read(context: CheckContext): Promise<Run>
  command: string
}

/**
 * A check of shapes of a run. Once passed on the live cluster it remains passed; a capture is
 * judged by the run in it.
 */
export const shapesIn =
  <Run extends { at: string }>(
    { read, command }: StoredRun<Run>,
    note: string,
    shapesOfRun: (run: Run) => Shape[],
  ): Check =>
  async (context: CheckContext) => {
    const { live, notes, show } = context
    const seenBefore = notes.read(note, z.looseObject({})) !== undefined
    if (live && seenBefore) return
    const run = await read(context)
    const shapes = shapesOfRun(run)
    show(shapes.map(({ wanted, result, figures }) => `${wanted}, ${result}: ${figures}`))
    try {
      judgeShapes(shapes, command)
    } catch (error) {
      if (!seenBefore || !(error instanceof Failure)) throw error
      throw new NotApplicable('it held in a run that a later one has replaced')
    }
    notes.keep(note, { measured: run.at, seen: shapes.map(({ figures }) => figures) })
  }

/** The same for the run of both modes. */
export const shapesOf = (note: string, shapesOfRun: (run: Measurement) => Shape[]): Check =>
  shapesIn({ read: measuredRun, command: 'make measure' }, note, shapesOfRun)

/** The smallest increase that counts as noticeable. */
const NOTICEABLE = 0.1

/**
 * Question: the first size at which a new connection with iptables to the last Service took over
 * 10% longer; "none" if there is none.
 */
export async function turningPoint(context: CheckContext): Promise<Truth> {
  const slowdown = lastServiceSlowdown((await measuredRun(context)).iptables)
  const first = slowdown.find(({ part }) => part > NOTICEABLE)
  const percent = (part: number) => `${(part * 100).toFixed(1)}%`
  const wrong = slowdown
    .filter(({ services }) => services !== first?.services)
    .map(({ services, part }) => ({
      when: String(services),
      because:
        part > NOTICEABLE
          ? `At ${services} Services it was ${percent(part)} slower, but a smaller size is above 10% as well.`
          : `At ${services} Services it was ${percent(part)} slower, which is not more than 10%.`,
    }))
  const none = {
    when: 'none',
    because: 'At the larger sizes the line of iptables in "slower by" is above 10.',
  }
  return {
    accepts: [first === undefined ? 'none' : String(first.services)],
    inspect: 'make measure SHOW=lookup',
    wrong: [...wrong, ...(first === undefined ? [] : [none])],
    because:
      first === undefined
        ? 'At no size of your run. Below this number speed is no reason to choose a mode.'
        : `At ${first.services} Services it was ${percent(first.part)} slower, for the shortest possible request.`,
  }
}
