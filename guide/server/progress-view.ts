import { isDone, type LabProgress, outcomeOf, pointsOf } from '../../course/lab-progress.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import type { StepDefinition } from '../../grading/lab-definition.ts'
import { differencesOf } from '../../grading/learner-report.ts'
import { findingOf, pointsWith } from '../../grading/report.ts'
import type { Finding, ProgressPush, StepProgress } from '../protocol.ts'

/** The parts of the push that are not in the progress. */
type Circumstances = Pick<ProgressPush, 'at' | 'workedMs' | 'paused' | 'busy' | 'trouble' | 'summary'>

/** The push about a learner's progress. */
export function progressPush(progress: LabProgress, circumstances: Circumstances): ProgressPush {
  const { lab } = progress
  const { points, of } = pointsOf(progress)
  return {
    type: 'progress',
    lab: lab.definition.number,
    points,
    of,
    steps: lab.steps.map(({ definition }) => stepProgress(progress, definition)),
    ...circumstances,
  }
}

function stepProgress(progress: LabProgress, step: StepDefinition): StepProgress {
  const { lab, held, hints } = progress
  const outcome = outcomeOf(progress, step.id)
  const texts = lab.steps.find(({ definition }) => definition.id === step.id)?.hints ?? []
  const { verdict, reason, waitsFor, measured, failure } = outcome ?? {}
  return {
    id: step.id,
    points: outcome?.verdict === 'passed' ? pointsWith(step.points, outcome) : 0,
    held: held.has(step.id),
    unsent: outcome?.unsent === true && !isDone(outcome),
    hints: texts.slice(0, hints.get(step.id) ?? 0),
    verdict,
    finding: failure && findingFor(lab.definition.number, step, failure),
    reason,
    waitsFor,
    measured,
  }
}

/** A finding as `make check` prints it. */
function findingFor(lab: number, step: StepDefinition, failure: NonNullable<StepOutcome['failure']>): Finding {
  const finding = findingOf(step, failure)
  return {
    ...finding,
    differences: differencesOf(finding),
    next: finding.next ?? `make hint LAB=${lab} STEP=${step.id}`,
  }
}
