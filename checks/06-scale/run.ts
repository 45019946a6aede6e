import {
  largestPoint,
  MEASUREMENT,
  type Measurement,
  measurement,
  type Point,
  type Quantity,
} from '../../course/scale/measurement.ts'
import {
  type Counts,
  countState,
  countTable,
  MEASURED_NODE,
  MEASURED_VERSION,
  SERVER,
  syntheticCluster,
} from '../../course/scale/synthetic-cluster.ts'
import type { KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { readObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'
import { type KernelName, requireSupport } from '../../embedded/index.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectFound, expectThat, NotApplicable } from '../../grading/failure.ts'
import type { Truth } from '../../grading/question.ts'

/** Prints the last run again. */
export const SHOW = 'make measure SHOW=1'

/** A shape needs at least this many sizes, and a spread this many values per size. */
const MIN_SIZES = 4
const MIN_VALUES = 3

const repeated: readonly Quantity[] = [
  'changeMs',
  'newMoreMicros',
  'keptMoreMicros',
  'workMicros',
  'busyMore',
]

/**
 * The run that `make measure` stored in the cluster. Not applicable for a capture without one, or
 * where the measuring kernel can't run.
 */
export async function measuredRun({ notes, live }: CheckContext): Promise<Measurement> {
  const run = notes.read(MEASUREMENT, measurement)
  if (!run) await expectMeasurable(live, 'uml')
  return expectFound(run, {
    inspect: SHOW,
    expected: 'one run in which both modes were measured at the same sizes',
    actual: 'no such run in the ConfigMap lab-6',
    next: 'make measure',
  })
}

/** Throws NotApplicable for a capture, and where the kernel can't run. */
export async function expectMeasurable(
  live: CheckContext['live'],
  kernel: KernelName,
): Promise<void> {
  if (!live) throw new NotApplicable('nothing was measured before this capture was taken')
  try {
    await requireSupport(kernel)
  } catch (error) {
    throw new NotApplicable(
      `the measuring kernel does not run here: ${error instanceof Error ? error.message : error}`,
    )
  }
}

/** The run has both modes at four sizes or more, with several samples each. */
export async function bothModesMeasured(context: CheckContext): Promise<void> {
  const run = await measuredRun(context)
  context.show([
    `${run.iptables.map(({ services }) => services).join(', ')} Services in both modes; the next steps show what was measured`,
  ])
  const sizes = run.iptables.length
  expectRun(sizes >= MIN_SIZES, {
    expected: `${MIN_SIZES} sizes or more: through fewer points any curve can be drawn`,
    actual: `${sizes}`,
    next: 'make measure MAX=1000',
  })
  for (const mode of ['iptables', 'ipvs'] as const)
    for (const point of run[mode])
      for (const quantity of repeated)
        expectRun(point[quantity].length >= MIN_VALUES, {
          expected: `${quantity} measured at least ${MIN_VALUES} times at ${point.services} Services in ${mode} mode`,
          actual: `${point[quantity].length}`,
          hint: 'The measurement was interrupted: let it run to its end.',
          next: 'make measure',
        })
}

/** Asserts a property of the run; `make measure SHOW=1` prints the run. */
export function expectRun(
  holds: boolean,
  details: { expected: string; actual: string; hint?: string; next?: string },
): void {
  expectThat(holds, { inspect: SHOW, ...details })
}

/** The counts that kube-proxy of a mode programs for a number of Services. */
function predictedCounts(mode: KubeProxyMode, services: number, endpoints: number): Counts {
  const { objects } = readObjects(syntheticCluster(services, endpoints, SERVER))
  const state = predict(objects, { node: MEASURED_NODE, mode, version: MEASURED_VERSION })
  return state.nftables ? countTable(state.nftables) : countState(state)
}

/**
 * The counts on the node are those of kube-proxy at every size: linear in the Services,
 * extrapolated from predictions for 10 and 20. `command` measures again.
 */
export function expectPredictedCounts(
  mode: KubeProxyMode,
  points: readonly Point[],
  endpoints: number,
  command: string,
): void {
  const [ten, twenty] = [predictedCounts(mode, 10, endpoints), predictedCounts(mode, 20, endpoints)]
  for (const point of points)
    for (const what of Object.keys(ten) as (keyof Counts)[]) {
      const count = ten[what] + ((twenty[what] - ten[what]) / 10) * (point.services - 10)
      expectRun(point[what] === count, {
        expected: `${count} ${what} for ${point.services} Services in ${mode} mode`,
        actual: `${point[what]}`,
        next: command,
      })
    }
}

const countsArePredicted = (mode: SwitchedMode) => async (context: CheckContext) => {
  const { endpoints, ...run } = await measuredRun(context)
  expectPredictedCounts(mode, run[mode], endpoints, 'make measure')
}

/** iptables mode: every Service adds a rule to KUBE-SERVICES, and further rules in other chains. */
export const entriesGrow = countsArePredicted('iptables')

/**
 * IPVS mode: the same rules at every size; sets and virtual servers have grown by the number of
 * Services instead.
 */
export const rulesStay = countsArePredicted('ipvs')

/** The number of rules that one Service adds in iptables mode. */
export async function rulesOfOneService(context: CheckContext): Promise<Truth> {
  const { iptables } = await measuredRun(context)
  const [first, last] = [iptables[0] ?? largestPoint(iptables), largestPoint(iptables)]
  const each = (last.rules - first.rules) / (last.services - first.services)
  const { endpoints } = await measuredRun(context)
  return {
    accepts: [String(each)],
    inspect: 'make measure SHOW=rules',
    wrong: [
      {
        when: '1',
        because:
          'That is its entry in KUBE-SERVICES. It jumps to a chain of the Service, and from there to chains of its endpoints.',
      },
      {
        when: String(2 + endpoints),
        because:
          'The chain of the Service is counted, its endpoints have chains, too: two rules each.',
      },
      {
        when: (answer) => Math.abs(Number(answer) - last.rules / last.services) < 0.6,
        because:
          'That divides all rules by all Services. Some rules exist without any Service: take the difference of two columns.',
      },
    ],
    because: `An entry, a rule for masquerading, and for each of the ${endpoints} endpoints one rule that chooses it and two in its own chain: 2 + 3 × ${endpoints}.`,
  }
}
