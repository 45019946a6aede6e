import * as z from 'zod'
import { plainText } from '../../../host/plain-text.ts'
import type { Graded, GradedStep } from '../result.ts'

/**
 * Why a step has its verdict, for its learner: the expected and the actual state, and what to do
 * next.
 */
function explained({ verdict, reason, finding }: GradedStep): string {
  if (verdict === 'passed') return 'passed'
  if (!finding) return `${verdict}: ${reason ?? 'no reason was given'}`
  const { node, inspect, expected, actual, why, hint } = finding
  return [
    ...(node === undefined ? [] : [`node:     ${node}`]),
    `expected: ${expected}`,
    `found:    ${actual}`,
    `inspect:  ${inspect}`,
    `why:      ${why}`,
    `next:     ${hint}`,
  ].join('\n')
}

/**
 * A report in check50's JSON format: `passed` is null for a step that could not be judged, which is
 * not a failure.
 */
export const check50Schema = z.object({
  slug: z.string(),
  version: z.string(),
  results: z.array(
    z.object({
      name: z.string(),
      description: z.string(),
      passed: z.boolean().nullable(),
      log: z.array(z.string()),
      cause: z
        .object({
          rationale: z.string(),
          help: z.string().nullable(),
          expected: z.string().optional(),
          actual: z.string().optional(),
        })
        .nullable(),
      data: z.record(z.string(), z.unknown()),
      dependency: z.string().nullable(),
    }),
  ),
})
const WAITS = /^waits for: ([^,]+)/

type Check50Report = z.infer<typeof check50Schema>

export function check50Of({ lab, learner, steps }: Graded): Check50Report {
  return {
    slug: `kube-service-labs/lab-${lab}`,
    version: '1',
    results: steps.map((step) => ({
      name: step.id,
      description: step.title,
      passed: passedOf(step),
      log: step.finding ? [step.finding.inspect] : [],
      cause: stepCause(step),
      data: { learner, points: step.points, maxPoints: step.maxPoints, verdict: step.verdict },
      dependency: WAITS.exec(step.reason ?? '')?.[1] ?? null,
    })),
  }
}

/**
 * A step that waits for another one was not checked, as in check50; a step that no capture shows
 * did not pass.
 */
function passedOf({ verdict, reason }: GradedStep): boolean | null {
  if (verdict === 'passed') return true
  if (verdict === 'failed') return false
  return verdict === 'not yet' && !WAITS.test(reason ?? '') ? false : null
}

function stepCause({
  verdict,
  reason,
  finding,
}: GradedStep): Check50Report['results'][number]['cause'] {
  if (verdict === 'passed') return null
  if (!finding) return { rationale: reason ?? verdict, help: null }
  const { expected, actual, why, hint } = finding
  return { rationale: why, help: hint, expected, actual }
}

/** A result in the format `classroom50/result/v1`: whole points, `passed` per test. */
export const classroom50Schema = z.object({
  schema: z.literal('classroom50/result/v1'),
  classroom: z.string(),
  assignment: z.string(),
  owner: z.string(),
  submission: z.string(),
  commit: z.string(),
  release: z.string(),
  review: z.string(),
  datetime: z.string(),
  score: z.number().int(),
  'max-score': z.number().int(),
  tests: z.array(
    z.looseObject({
      'test-name': z.string(),
      passed: z.boolean(),
      score: z.number().int(),
      'max-score': z.number().int(),
    }),
  ),
})
type Classroom50Result = z.infer<typeof classroom50Schema>

/** The harness describes itself in environment variables. */
export function classroom50Of(
  graded: Graded,
  environment: NodeJS.ProcessEnv = process.env,
): Classroom50Result {
  const { learner, lab, file, submittedAt, score, maxScore, steps } = graded
  return {
    schema: 'classroom50/result/v1',
    classroom: environment.CLASSROOM ?? '',
    assignment: environment.ASSIGNMENT ?? `lab-${lab}`,
    owner: learner,
    submission: environment.SUBMISSION_TAG ?? file,
    commit: environment.COMMIT_URL ?? '',
    release: environment.RELEASE_URL ?? '',
    review: environment.REVIEW_URL ?? '',
    datetime: submittedAt,
    score,
    'max-score': maxScore,
    // A step that can't be judged is left out, because its points are in neither sum.
    tests: steps
      .filter(({ verdict }) => verdict !== 'not applicable')
      .map((step) => ({
        'test-name': step.id,
        passed: step.verdict === 'passed',
        score: step.points,
        'max-score': step.maxPoints,
        verdict: step.verdict,
        output: explained(step),
      })),
  }
}

/** The `results.json` of Gradescope's autograder specification. */
export const gradescopeSchema = z.object({
  score: z.number(),
  execution_time: z.number().optional(),
  output: z.string(),
  visibility: z.literal('visible'),
  stdout_visibility: z.literal('hidden'),
  extra_data: z.record(z.string(), z.unknown()),
  tests: z.array(
    z.object({
      name: z.string(),
      number: z.string(),
      score: z.number().optional(),
      max_score: z.number().optional(),
      status: z.enum(['passed', 'failed']).optional(),
      output: z.string(),
      output_format: z.literal('text'),
      visibility: z.literal('visible'),
    }),
  ),
})
type GradescopeResults = z.infer<typeof gradescopeSchema>

/** Flags are only for the instructor, so they are in `extra_data`, which learners do not see. */
export function gradescopeOf(graded: Graded): GradescopeResults {
  const { score, maxScore, lab, title, learner, steps, flags, signature } = graded
  return {
    score,
    output: `Lab ${lab}: ${title}. ${score} of ${maxScore} points, judged again from the captures that were handed in.`,
    visibility: 'visible',
    stdout_visibility: 'hidden',
    extra_data: { learner, maxScore, signature, flags },
    tests: steps.map((step, index) => ({
      name: `${step.id}: ${step.title}`,
      number: String(index + 1),
      ...scored(step),
      output: plainText(explained(step)),
      output_format: 'text',
      visibility: 'visible',
    })),
  }
}

function scored({ verdict, points, maxPoints }: GradedStep) {
  if (verdict === 'not applicable') return {}
  return {
    score: points,
    max_score: maxPoints,
    status: verdict === 'passed' ? ('passed' as const) : ('failed' as const),
  }
}
