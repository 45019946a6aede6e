import { MIN_SIZES, MIN_VALUES } from '../../course/scale/growth.ts'
import { isMeasurement, MEASUREMENT, type Measurement, type Quantity } from '../../course/scale/measurement.ts'
import { measurementTable } from '../../course/scale/table.ts'
import { requireSupport } from '../../embedded/index.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { fail, NotApplicable } from '../../grading/failure.ts'

/** Prints the last run again. */
export const SHOW = 'make measure SHOW=1'

const repeated: readonly Quantity[] = ['changeMs', 'newMoreMicros', 'keptMoreMicros', 'workMicros', 'busyMore']

/**
 * The run that the steps judge: what `make measure` kept in the cluster. A capture without one is not the learner's fault, nor
 * is a machine on which the measuring kernel can't run.
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
