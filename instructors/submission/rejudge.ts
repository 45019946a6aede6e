import type { Capture } from '../../cluster/capture-folder.ts'
import { BoundedCache } from '../../dataplane/bounded-cache.ts'
import { attemptOf } from '../../grading/attempt.ts'
import type { CheckedStep, LabSpec } from '../../grading/check-context.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judgeRound } from '../../grading/judge.ts'
import { listLabs } from '../../grading/lab-definition.ts'
import { reportOf } from '../../grading/report.ts'
import type { Report } from '../../grading/report-schema.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { capturesToJudge } from './latest-answers.ts'
import { hasPredictions, type Manifest } from './manifest.ts'
import type { Submission } from './read-submission.ts'
import { refuse } from './untrusted-text.ts'

/**
 * Judges a submission again, from its raw captures alone. A step about the cluster's current state
 * is judged on the final capture first, then on the capture of the moment when it passed; a step
 * about a moment in reverse order, because the final capture only has a note of it, and first on
 * the capture on which its state held before it was answered. The verdicts in the file only decide
 * which captures are used. `asks`: whether predictions and questions beside a state count; by
 * default where a capture has notes of the lab.
 */
export async function rejudge(
  spec: LabSpec,
  { steps, final }: Pick<Manifest, 'steps' | 'final'>,
  snapshotOf: SnapshotOf,
  asks?: boolean,
): Promise<StepOutcome[]> {
  const claims = new Map(steps.map((step) => [step.id, step]))
  const inAttempt = attemptFilter(spec, { steps, final }, snapshotOf)
  const outcomes = new Map<string, StepOutcome>()
  for (const step of spec.steps) {
    const { capture: own, held: beforeAnswer } = claims.get(step.id) ?? {}
    const places = step.moment ? [beforeAnswer, own, final] : [final, own, beforeAnswer]
    const counted = places.filter((place) => inAttempt(place, step.id))
    const best = await judgeOn(spec, step, new Set(counted), snapshotOf, asks)
    const outcome = isUnseen(step, best, asks) ? unseen(best) : best
    const open = step.needs.filter((need) => isStillOpen(outcomes.get(need)))
    const waits = {
      verdict: 'not yet',
      waitsFor: open,
      reason: `waits for: ${open.join(', ')}`,
    } as const
    // A step whose needs did not pass waits for them, as on the cluster.
    outcomes.set(
      step.id,
      open.length > 0 && outcome.verdict === 'passed' ? { id: step.id, ...waits } : outcome,
    )
  }
  return [...outcomes.values()]
}

/**
 * Tells whether a capture counts for a step: one of another attempt does not (a diagnosis of one
 * incident earns nothing for the next one). The current attempt is that of the final capture, else
 * of the latest one that has an attempt.
 */
function attemptFilter(
  { lab: { number } }: LabSpec,
  { steps, final }: Pick<Manifest, 'steps' | 'final'>,
  snapshotOf: SnapshotOf,
): (place: string | undefined, step: string) => boolean {
  const latestFirst = steps
    .toSorted((a, b) => (b.passedAt ?? '').localeCompare(a.passedAt ?? ''))
    .map(({ capture }) => capture)
  const ofPlace = (place: string | undefined, step: string) => {
    const snapshot = snapshotOf(place)
    return snapshot && attemptOf(snapshot, number, step)
  }
  return (place, step) => {
    const own = ofPlace(place, step)
    if (own === undefined) return true
    for (const candidate of [final, ...latestFirst]) {
      const current = ofPlace(candidate, step)
      if (current !== undefined) return own === current
    }
    return true
  }
}

/** As on the cluster, the state of a step holds even without a prediction or an answer there. */
const isStillOpen = (need: StepOutcome | undefined): boolean =>
  !need || !(need.unanswered || need.verdict === 'passed' || need.verdict === 'not applicable')

/**
 * The report of a submission. A step that the captures do not show gets no points, with a reason.
 * @throws Refusal if its lab does not exist
 */
export async function reportSubmission(submission: Submission, file: string): Promise<Report> {
  const { lab, final } = submission.manifest
  const labs = listLabs()
  const found = labs.find(({ number }) => number === lab)
  if (!found)
    refuse(
      `It is for lab ${lab}, which does not exist: the labs are ${labs.map(({ number }) => number).join(', ')}.`,
    )
  const spec = await loadSpec(found)
  const began = performance.now()
  const snapshotOf = snapshotsOf(capturesToJudge(submission))
  const outcomes = await rejudge(
    spec,
    submission.manifest,
    snapshotOf,
    hasPredictions(submission.manifest),
  )
  return reportOf(spec.lab, { lab, source: { kind: 'submission', file } }, outcomes, {
    snapshot: snapshotOf(final ?? [...submission.captures.keys()].at(-1)),
    seconds: (performance.now() - began) / 1000,
    handedIn: true,
  })
}

type SnapshotOf = (id: string | undefined) => Snapshot | undefined

/** Finds the snapshot of a capture, which all steps that are judged on it share. */
function snapshotsOf(captures: ReadonlyMap<string, Capture>): SnapshotOf {
  const made = new BoundedCache<Snapshot>(captures.size)
  return (id = '') => {
    const capture = captures.get(id)
    return capture && made.getOrCreate(id, () => new Snapshot(capture))
  }
}

const UNSEEN = 'no capture that shows it was handed in'

const unseen = ({ id, reason }: StepOutcome): StepOutcome => ({
  id,
  verdict: 'not yet',
  reason: `${UNSEEN} (${reason})`,
})

/**
 * Whether a step that is not applicable to the captures has to be shown by one: if it is about
 * another moment, but not if it sends real requests. Steps of 0.1 that lab.yaml does not call a
 * moment were left out.
 */
function isUnseen(
  { moment, needsCluster }: CheckedStep,
  { verdict, outOfReach, pastMoment }: StepOutcome,
  asks: boolean | undefined,
): boolean {
  if (verdict !== 'not applicable' || outOfReach || needsCluster) return false
  if (moment) return true
  return pastMoment === true && asks !== false
}

/**
 * The first snapshot on which the step passes decides; otherwise the one with the most specific
 * reason.
 */
async function judgeOn(
  spec: LabSpec,
  step: CheckedStep,
  places: ReadonlySet<string | undefined>,
  snapshotOf: SnapshotOf,
  asks: boolean | undefined,
): Promise<StepOutcome> {
  const { id } = step
  let best: StepOutcome | undefined
  for (const place of places) {
    const snapshot = snapshotOf(place)
    if (!snapshot) continue
    // Judged alone: dependencies are applied after all steps are judged, each on its own capture.
    const [outcome] = await judgeRound(spec, snapshot, undefined, [id], asks)
    if (!outcome || outcome.verdict === 'passed')
      return outcome ?? { id, verdict: 'could not check' }
    if (best?.verdict !== 'failed') best = outcome
    if (step.needsCluster) return outcome
  }
  return best ?? { id, verdict: 'not yet', reason: UNSEEN }
}
