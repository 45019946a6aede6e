import type { LabSpec } from '../../grading/check-context.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { judgeRound } from '../../grading/judge.ts'
import type { StepDefinition } from '../../grading/lab-definition.ts'
import { reportOf } from '../../grading/report.ts'
import type { Report } from '../../grading/report-schema.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { roundFacts, roundNotes } from '../../grading/source.ts'
import type { Submission } from './read-submission.ts'

/**
 * Judges a submission again, from its raw captures alone. A step about the cluster's current state is judged on the final
 * capture first, then on the capture of the moment when it passed; a step about a moment in reverse order, because the final
 * capture only has a note of it. The verdicts in the file only decide which captures are used.
 */
export async function rejudge(
  spec: LabSpec,
  submission: Submission,
  snapshots = new Snapshots(submission),
): Promise<StepOutcome[]> {
  const { manifest } = submission
  const captureOf = new Map(manifest.steps.map(({ id, capture }) => [id, capture]))
  const outcomes: StepOutcome[] = []
  for (const step of spec.lab.steps) {
    const own = captureOf.get(step.id)
    const places = step.moment ? [own, manifest.final] : [manifest.final, own]
    outcomes.push(await judgeOn(spec, step, new Set(places), snapshots))
  }
  return withNeeds(spec.lab.steps, outcomes)
}

/** The report of a submission. A step that the captures do not show gets no points, with a reason. */
export async function reportSubmission(spec: LabSpec, submission: Submission, file: string): Promise<Report> {
  const began = performance.now()
  const snapshots = new Snapshots(submission)
  const outcomes = await rejudge(spec, submission, snapshots)
  const last = snapshots.get(submission.manifest.final ?? [...submission.captures.keys()].at(-1))
  return reportOf(spec.lab, { lab: spec.lab.number, source: { kind: 'submission', file } }, outcomes, {
    facts: last ? roundFacts(last) : {},
    notes: last ? roundNotes(last) : [],
    seconds: (performance.now() - began) / 1000,
    handedIn: true,
  })
}

/** One snapshot per capture, shared by all steps that are judged on it. */
class Snapshots {
  readonly #captures: Submission['captures']
  readonly #made = new Map<string, Snapshot>()

  constructor({ captures }: Submission) {
    this.#captures = captures
  }

  get(id: string | undefined): Snapshot | undefined {
    const kept = id === undefined ? undefined : this.#captures.get(id)
    if (id === undefined || !kept) return undefined
    const snapshot = this.#made.get(id) ?? new Snapshot(kept.capture)
    this.#made.set(id, snapshot)
    return snapshot
  }
}

/** The first snapshot on which the step passes decides; otherwise the one with the most specific reason. */
async function judgeOn(
  spec: LabSpec,
  step: StepDefinition,
  places: ReadonlySet<string | undefined>,
  snapshots: Snapshots,
): Promise<StepOutcome> {
  const { id, moment } = step
  let said: StepOutcome | undefined
  for (const place of places) {
    const snapshot = snapshots.get(place)
    if (!snapshot) continue
    // Judged alone: dependencies are applied after all steps are judged, each on its own capture.
    const [outcome] = await judgeRound(spec, snapshot, undefined, [id])
    if (!outcome || outcome.verdict === 'passed') return outcome ?? { id, verdict: 'could not check' }
    if (said?.verdict !== 'failed') said = outcome
    if (spec.checks.get(id)?.needsCluster) return outcome
  }
  if (!said) return { id, verdict: 'not yet', reason: 'no capture that shows it was handed in' }
  if (said.verdict !== 'not applicable' || said.outOfReach || !moment) return said
  return { id, verdict: 'not yet', reason: `no capture that shows it was handed in (${said.reason})` }
}

/** A step whose needs did not pass waits for them, as on the cluster. */
function withNeeds(steps: readonly StepDefinition[], outcomes: readonly StepOutcome[]): StepOutcome[] {
  const settled = new Map<string, StepOutcome>()
  for (const [index, outcome] of outcomes.entries()) {
    const open = (steps[index]?.needs ?? []).filter((need) => {
      const verdict = settled.get(need)?.verdict
      return verdict !== 'passed' && verdict !== 'not applicable'
    })
    const waiting: StepOutcome = {
      id: outcome.id,
      verdict: 'not yet',
      waitsFor: open,
      reason: `waits for: ${open.join(', ')}`,
    }
    settled.set(outcome.id, open.length > 0 && outcome.verdict === 'passed' ? waiting : outcome)
  }
  return [...settled.values()]
}
