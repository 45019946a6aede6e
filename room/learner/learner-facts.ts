// What is sent of a step: what `make check` prints of it, shortened to what the room accepts.

import { isIPv6 } from 'node:net'
import { isDone, type LabProgress, outcomeOf, shownStepId } from '../../course/lab-progress.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import type { LabDefinition, StepDefinition } from '../../grading/lab-definition.ts'
import { differencesOf } from '../../grading/learner-report.ts'
import { findingOf, pointsWith } from '../../grading/report.ts'
import type { Finding, Report } from '../../grading/report-schema.ts'
import { plainText, shortened } from '../../host/plain-text.ts'
import type { FindingShown, LearnerFact, StepFact } from '../protocol.ts'

const LINE = 600
const DIFFERENCE = 300
const MOST_DIFFERENCES = 8
const LONGEST_ANSWER = 500

/** How texts of a cluster are sent: as they are, or without addresses. */
export type Redact = (text: string) => string

const V4 = /\b(?:\d{1,3}\.){3}\d{1,3}\b/g
const MAYBE_V6 = /[0-9a-f:]*:[0-9a-f:]*:[0-9a-f.]*/gi
/** Without addresses: the nodes of a kubeconfig's cluster are real machines. */
export const withoutAddresses: Redact = (text) =>
  text.replace(MAYBE_V6, (word) => (isIPv6(word) ? '•' : word)).replace(V4, '•')

function findingShown(finding: Finding, redact: Redact): FindingShown {
  const line = (text: string, most = LINE) => shortened(redact(plainText(text)), most)
  return {
    ...(finding.node !== undefined && { node: line(finding.node, 100) }),
    command: line(finding.inspect),
    expected: line(finding.expected),
    found: line(finding.actual),
    differences: differencesOf(finding)
      .slice(0, MOST_DIFFERENCES)
      .map((text) => line(text, DIFFERENCE)),
  }
}

/** What is sent of the outcome of a step. */
export function stepFactOf(
  lab: number,
  step: StepDefinition,
  outcome: StepOutcome,
  hints: number,
  redact: Redact = (text) => text,
): StepFact {
  const { verdict, failure, unanswered } = outcome
  return {
    kind: 'step',
    lab,
    step: step.id,
    verdict,
    hints,
    points: verdict === 'passed' ? pointsWith(step.points, outcome) : 0,
    ...(unanswered && { unanswered }),
    ...(failure && !isDone(outcome) && { finding: findingShown(findingOf(step, failure), redact) }),
  }
}

/** What is sent of a learner's progress, without the place. */
export function factsOfProgress(progress: LabProgress, redact?: Redact): LearnerFact[] {
  const { definition } = progress.lab
  const lab = definition.number
  return definition.steps.flatMap((step) => {
    const outcome = outcomeOf(progress, step.id)
    const hints = progress.hints.get(step.id) ?? 0
    if (!outcome) return []
    return [stepFactOf(lab, step, outcome, hints, redact), ...answerFacts(lab, outcome)]
  })
}

/** What the learner predicted and answered at a step. */
function answerFacts(lab: number, { id, learning }: Pick<StepOutcome, 'id' | 'learning'>) {
  const { prediction, answer } = learning ?? {}
  const fact = (what: 'prediction' | 'answer', text: string | undefined): LearnerFact[] =>
    text === undefined
      ? []
      : [{ kind: 'answer', lab, step: id, what, text: shortened(plainText(text), LONGEST_ANSWER) }]
  return [...fact('prediction', prediction?.text), ...fact('answer', answer?.text)]
}

/** The id of the place that a guide shows. */
export const placeOfProgress = (progress: LabProgress): string =>
  progress.place === 'step' ? shownStepId(progress) : progress.place

/** What is sent of a report of `make check`. */
export function factsOfReport(
  { number, steps }: LabDefinition,
  report: Report,
  hints: ReadonlyMap<string, number>,
  redact: Redact = (text) => text,
): LearnerFact[] {
  return report.steps.flatMap((step) => {
    const { id, verdict, points, finding, unanswered, learning } = step
    if (!steps.some((one) => one.id === id)) return []
    const fact: StepFact = {
      kind: 'step',
      lab: number,
      step: id,
      verdict,
      points,
      hints: hints.get(id) ?? 0,
      ...(unanswered && { unanswered }),
      ...(finding && verdict !== 'passed' && { finding: findingShown(finding, redact) }),
    }
    return [fact, ...answerFacts(number, { id, ...(learning && { learning }) })]
  })
}
