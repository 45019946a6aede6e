import { MIN_SIZES, MIN_VALUES } from '../../course/scale/growth.ts'
import {
  isMeasurement,
  largestPoint,
  MEASUREMENT,
  type Measurement,
  type Point,
  type Quantity,
} from '../../course/scale/measurement.ts'
import {
  countState,
  MEASURED_NODE,
  MEASURED_VERSION,
  SERVER,
  syntheticCluster,
} from '../../course/scale/synthetic-cluster.ts'
import { measurementTable } from '../../course/scale/table.ts'
import { BoundedCache } from '../../dataplane/bounded-cache.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { readObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'
import { requireSupport } from '../../embedded/index.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { fail, NotApplicable } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'

/** Prints the last run again. */
export const SHOW = 'make measure SHOW=1'

const repeated: readonly Quantity[] = ['changeMs', 'newMoreMicros', 'keptMoreMicros', 'workMicros', 'busyMore']

/**
 * The run that the steps judge, kept in the cluster by `make measure`. Not applicable for a capture without one, and on a
 * machine that can't run the measuring kernel.
 */
export async function measuredRun({ notes, live }: CheckContext): Promise<Measurement> {
  const run = notes.read(MEASUREMENT, isMeasurement)
  if (run) return run
  if (!live) throw new NotApplicable('nothing was measured before this capture was taken')
  try {
    await requireSupport()
  } catch (error) {
    throw new NotApplicable(`the measuring kernel does not run here: ${error instanceof Error ? error.message : error}`)
  }
  return fail({
    look: SHOW,
    expected: 'one run in which both modes were measured at the same sizes',
    actual: 'no such run in the ConfigMap lab-6',
    hint: 'make measure',
  })
}

/** Both modes at four sizes or more, everything several times. */
export async function bothModesMeasured(context: CheckContext): Promise<void> {
  const run = await measuredRun(context)
  context.show(measurementTable(run))
  const sizes = run.iptables.length
  expectRun(sizes >= MIN_SIZES, {
    expected: `${MIN_SIZES} sizes or more: through fewer points any curve can be drawn`,
    actual: `${sizes}`,
    hint: 'make measure MAX=1000',
  })
  for (const mode of ['iptables', 'ipvs'] as const)
    for (const point of run[mode])
      for (const quantity of repeated)
        expectRun(point[quantity].length >= MIN_VALUES, {
          expected: `${quantity} measured at least ${MIN_VALUES} times at ${point.services} Services in ${mode} mode`,
          actual: `${point[quantity].length}`,
          hint: 'make measure again, to its end',
        })
}

/** What was measured is as it must be; `make measure SHOW=1` prints it. */
export function expectRun(holds: boolean, told: { expected: string; actual: string; hint?: string }): void {
  if (!holds) fail({ look: SHOW, ...told })
}

/** Predicting more Services takes too long for a check; the smaller sizes are checked. */
const PREDICTED_UP_TO = 1000

const known = new BoundedCache<ReturnType<typeof countState>>(200)

/** What so many Services come to. Every step of a run asks for the same sizes, and so do the runs of a class. */
function predictedCounts(mode: SwitchedMode, services: number, endpoints: number): ReturnType<typeof countState> {
  return known.getOrCreate(`${mode} ${services} ${endpoints}`, () => {
    const { objects } = readObjects(syntheticCluster(services, endpoints, SERVER))
    return countState(predict(objects, { node: MEASURED_NODE, mode, version: MEASURED_VERSION }))
  })
}

/** What was counted on the node must be what kube-proxy of that mode programs for so many Services. */
function mustBePredicted({ endpoints, ...run }: Measurement, mode: SwitchedMode): void {
  for (const point of run[mode]) {
    if (point.services > PREDICTED_UP_TO) continue
    const expected = predictedCounts(mode, point.services, endpoints)
    for (const [what, count] of Object.entries(expected)) {
      const actual = point[what as keyof typeof expected]
      expectRun(actual === count, {
        expected: `${count} ${what} for ${point.services} Services in ${mode} mode`,
        actual: `${actual}`,
        hint: 'make measure',
      })
    }
  }
}

const grown = (points: readonly Point[], count: (point: Point) => number) =>
  count(largestPoint(points)) - count(points[0] ?? largestPoint(points))

/** iptables mode: one more entry in KUBE-SERVICES for each additional Service, at every size, and more rules behind it. */
export async function entriesGrow(context: CheckContext): Promise<void> {
  const run = await measuredRun(context)
  mustBePredicted(run, 'iptables')
  for (const [index, { services, entries }] of run.iptables.entries()) {
    const before = run.iptables[index - 1]
    if (!before) continue
    expectRun(entries - before.entries === services - before.services, {
      expected: `${services - before.services} entries more at ${services} Services than at ${before.services}`,
      actual: `${entries - before.entries} more`,
    })
  }
}

/** IPVS mode: the same rules at every size; sets and virtual servers have grown by the number of Services instead. */
export async function rulesStay(context: CheckContext): Promise<void> {
  const run = await measuredRun(context)
  mustBePredicted(run, 'ipvs')
  const services = grown(run.ipvs, (point) => point.services)
  const [first] = run.ipvs
  const other = run.ipvs.find(({ rules }) => rules !== first?.rules)
  expectRun(other === undefined, {
    expected: `${first?.rules} rules at every number of Services`,
    actual: `${other?.rules} at ${other?.services}`,
  })
  for (const count of ['members', 'virtualServers'] as const) {
    const more = grown(run.ipvs, (point) => point[count])
    expectRun(more === services, {
      expected: `${services} ${count} more for ${services} Services more`,
      actual: `${more} more`,
    })
  }
}

/** The number of rules that one more Service adds in iptables mode. */
export async function rulesOfOneService(context: CheckContext): Promise<Truth> {
  const { iptables } = await measuredRun(context)
  const each = grown(iptables, ({ rules }) => rules) / grown(iptables, ({ services }) => services)
  return { accepts: [String(each)], look: SHOW }
}
