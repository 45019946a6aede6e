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
 * Judges a submission again, from its raw captures alone. A step about the cluster's current state is judged at the
 * end first, then on the capture of the moment it is said to have passed; one about a moment the other way round, because
 * the end holds only a note of it. The verdicts inside decide only where to look.
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

/** The report of a submission. Points are lost for what a capture fails to show, with the reason at each step. */
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

/** One snapshot per capture: what it works out is shared by all steps that are judged on it, what was read by all captures. */
class Snapshots {
  readonly #captures: Submission['captures']
  #last: Snapshot | undefined
  readonly #made = new Map<string, Snapshot>()

  constructor({ captures }: Submission) {
    this.#captures = captures
  }

  get(id: string | undefined): Snapshot | undefined {
    const kept = id === undefined ? undefined : this.#captures.get(id)
    if (id === undefined || !kept) return undefined
    const snapshot = this.#made.get(id) ?? new Snapshot(kept.capture, this.#last)
    this.#made.set(id, snapshot)
    this.#last = snapshot
    return snapshot
  }
}

/** The first snapshot on which the step passes decides; otherwise the one that says most about why not. */
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
    // Alone: what a step waits for is settled once all are judged, on whichever capture each has.
    const [outcome] = await judgeRound(spec, snapshot, undefined, [id])
    if (!outcome || outcome.verdict === 'passed') return outcome ?? { id, verdict: 'could not check' }
    if (said?.verdict !== 'failed') said = outcome
    if (spec.checks.get(id)?.needsCluster) return outcome
  }
  if (!said) return { id, verdict: 'not yet', reason: 'no capture that shows it was handed in' }
  if (said.verdict !== 'not applicable' || said.outOfReach || !moment) return said
  return { id, verdict: 'not yet', reason: `no capture that shows it was handed in (${said.reason})` }
}

/** A step whose needs did not pass waits for them, as it would on the cluster. */
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
