import type { LabSpec } from '../check-context.ts'
import { judgeRound, type StepOutcome } from '../judge.ts'
import type { StepDefinition } from '../lab-definition.ts'
import { reportOf } from '../report.ts'
import type { Report } from '../report-schema.ts'
import { roundFacts } from '../round-facts.ts'
import { Snapshot } from '../snapshot.ts'
import type { Submission } from './read-submission.ts'

/**
 * Judges a submission again, from its raw captures alone: each step on the cluster as it was when it is said to have passed,
 * and what does not hold there on the capture of the end. The verdicts inside decide only where to look.
 */
export async function rejudge(spec: LabSpec, submission: Submission): Promise<StepOutcome[]> {
  const snapshots = new Snapshots(submission)
  const atMoment = await judgeMoments(spec, submission, snapshots)
  const open = spec.lab.steps.filter(({ id }) => atMoment.get(id)?.verdict !== 'passed')
  const atEnd = await judgeEnd(spec, submission, snapshots, open)
  const merged = spec.lab.steps.map((step) => merge(spec, step, atMoment.get(step.id), atEnd.get(step.id)))
  return withNeeds(spec.lab.steps, merged)
}

/** The report of a submission. Points are lost for what a capture fails to show, its reason stands beside each step. */
export async function reportSubmission(spec: LabSpec, submission: Submission, file: string): Promise<Report> {
  const began = performance.now()
  const outcomes = await rejudge(spec, submission)
  const last = submission.captures.get(submission.manifest.final ?? '') ?? [...submission.captures.values()].at(-1)
  return reportOf(spec.lab, { lab: spec.lab.number, source: { kind: 'submission', file } }, outcomes, {
    facts: last ? roundFacts(new Snapshot(last.capture)) : {},
    seconds: (performance.now() - began) / 1000,
    handedIn: true,
  })
}

/** One snapshot per capture: what it works out is shared by all steps that are judged on it. */
class Snapshots {
  readonly #captures: Submission['captures']
  readonly #made = new Map<string, Snapshot>()

  constructor({ captures }: Submission) {
    this.#captures = captures
  }

  get(id: string): Snapshot | undefined {
    const found = this.#made.get(id)
    const kept = this.#captures.get(id)
    if (found || !kept) return found
    const snapshot = new Snapshot(kept.capture)
    this.#made.set(id, snapshot)
    return snapshot
  }
}

async function judgeMoments(spec: LabSpec, { manifest }: Submission, snapshots: Snapshots) {
  const outcomes = new Map<string, StepOutcome>()
  const ids = new Set(manifest.steps.flatMap(({ capture }) => capture ?? []))
  for (const id of ids) {
    const snapshot = snapshots.get(id)
    const only = manifest.steps.filter(({ capture }) => capture === id).map((step) => step.id)
    if (!snapshot) continue
    // Each alone: what a step waits for is settled once all are judged, on whichever capture each has.
    for (const step of only)
      for (const outcome of await judgeRound(spec, snapshot, undefined, [step])) outcomes.set(outcome.id, outcome)
  }
  return outcomes
}

async function judgeEnd(
  spec: LabSpec,
  { manifest }: Submission,
  snapshots: Snapshots,
  open: readonly StepDefinition[],
): Promise<Map<string, StepOutcome>> {
  const outcomes = new Map<string, StepOutcome>()
  const snapshot = manifest.final === undefined ? undefined : snapshots.get(manifest.final)
  if (!snapshot) return outcomes
  for (const { id } of open)
    for (const outcome of await judgeRound(spec, snapshot, undefined, [id])) outcomes.set(outcome.id, outcome)
  return outcomes
}

function merge(
  { checks }: LabSpec,
  { id, moment }: StepDefinition,
  atMoment: StepOutcome | undefined,
  atEnd: StepOutcome | undefined,
): StepOutcome {
  if (atMoment?.verdict === 'passed') return atMoment
  if (atEnd?.verdict === 'passed') return atEnd
  const outcome = atMoment?.verdict === 'failed' ? atMoment : (atEnd ?? atMoment)
  if (!outcome) return { id, verdict: 'not yet', reason: 'no capture that shows it was handed in' }
  if (outcome.verdict !== 'not applicable' || checks.get(id)?.needsCluster || !moment) return outcome
  return { id, verdict: 'not yet', reason: `no capture that shows it was handed in (${outcome.reason})` }
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
