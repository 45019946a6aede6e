import type { DifferenceText } from '../dataplane/compare.ts'
import { type FailureDetail, type StepOutcome, Trouble } from './failure.ts'
import type { LabDefinition, StepDefinition } from './lab-definition.ts'
import type { Finding, Report, Source, StepReport } from './report-schema.ts'
import type { Snapshot } from './snapshot.ts'

/** The input of a grading run. */
export interface GradingRequest {
  lab: number
  /** Only this step. */
  step?: string | undefined
  source: Source
}

interface ReportCircumstances {
  /** The last snapshot that was judged, for the facts about the cluster. */
  snapshot?: Snapshot | undefined
  seconds: number
  trouble?: string | undefined
  /**
   * For a submission: a capture that can't be read earns no points, while a cluster that can't be
   * read costs none.
   */
  handedIn?: boolean
}

/**
 * The report of a judgement: the only place that computes points, score and exit code. A step
 * without an outcome could not be checked.
 */
export function reportOf(
  lab: LabDefinition,
  request: GradingRequest,
  outcomes: readonly StepOutcome[],
  { snapshot, seconds, trouble, handedIn = false }: ReportCircumstances,
): Report {
  const asked = lab.steps.filter((step) => request.step === undefined || step.id === request.step)
  const steps = asked.map((step) =>
    stepReport(
      step,
      outcomes.find(({ id }) => id === step.id),
      trouble,
    ),
  )
  const judged = steps.filter(
    ({ verdict }) => verdict !== 'not applicable' && (handedIn || verdict !== 'could not check'),
  )
  const unchecked = steps.some(({ verdict }) => verdict === 'could not check')
  return {
    schema: 'kube-service-labs/report/v1',
    lab: lab.number,
    title: lab.title,
    source: request.source,
    gradedAt: new Date().toISOString(),
    seconds: Number(seconds.toFixed(2)),
    versions: { node: process.version, ...(snapshot && proxyFacts(snapshot)) },
    steps,
    score: sum(judged.map(({ points }) => points)),
    maxScore: sum(judged.map(({ maxPoints }) => maxPoints)),
    complete: request.step === undefined && !unchecked,
    exitCode: exitCodeOf(steps),
    ...(snapshot && snapshot.leftOut.length > 0 && { notes: [...snapshot.leftOut] }),
    trouble,
  }
}

/** kube-proxy's version and mode, if all readable nodes agree. */
const proxyFacts = ({ nodes }: Snapshot) => ({
  kubeProxy: agreed(nodes.map((node) => node.kubeProxyVersion)),
  mode: agreed(nodes.map((node) => node.mode)),
})

function agreed(values: (string | Trouble | undefined)[]): string | undefined {
  const read = new Set(values.map((value) => (value instanceof Trouble ? undefined : value)))
  return read.size === 1 ? [...read][0] : undefined
}

/**
 * 0: every judged step passed; 1: a step is open; 2: a step could not be checked, or none was
 * judged.
 */
function exitCodeOf(steps: readonly StepReport[]): 0 | 1 | 2 {
  const verdicts = new Set(steps.map(({ verdict }) => verdict))
  if (verdicts.has('could not check')) return 2
  if (verdicts.has('failed') || verdicts.has('not yet')) return 1
  return verdicts.has('passed') ? 0 : 2
}

function stepReport(
  step: StepDefinition,
  outcome: StepOutcome | undefined,
  trouble: string | undefined,
): StepReport {
  const { id, title, predict, question, claims, points: maxPoints } = step
  const verdict = outcome?.verdict ?? 'could not check'
  const reason = outcome ? outcome.reason : (trouble ?? 'the step was not judged')
  return {
    id,
    title,
    predict: predict?.ask,
    question: question?.ask,
    claims,
    verdict,
    points: verdict === 'passed' ? pointsWith(maxPoints, outcome) : 0,
    maxPoints,
    waitsFor: outcome?.waitsFor,
    reason,
    finding: outcome?.failure && findingOf(step, outcome.failure),
    measured: outcome?.measured,
    unanswered: outcome?.unanswered,
    learning: outcome?.learning,
  }
}

/**
 * Completes a failure with the step's texts where the check gave none. If the learner has not
 * started the step, the command that solves it is omitted, because hints reveal it in tiers. The
 * advice for a difference is always included.
 */
export function findingOf(step: StepDefinition, failure: FailureDetail): Finding {
  const nudge = step.hints[0] ?? ''
  const isSolution =
    failure.next !== undefined &&
    !failure.differences?.length &&
    step.hints.at(-1)?.includes(failure.next)
  return {
    node: failure.node,
    inspect: failure.inspect,
    expected: failure.expected,
    actual: failure.actual,
    differences: (failure.differences ?? []).map(withoutPlace),
    why: failure.why ?? step.why,
    hint: isSolution ? nudge : (failure.hint ?? nudge),
    next: isSolution ? undefined : failure.next,
  }
}

const withoutPlace = ({ kind, text, expected, actual }: DifferenceText): DifferenceText => {
  return { kind, text, expected, actual }
}

/** The points of a step that has passed, without what help has cost. */
export const pointsWith = (points: number, outcome: StepOutcome | undefined): number =>
  Math.max(0, points - (outcome?.cost ?? 0))

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
