import { z } from 'zod'
import type { Graded } from '../result.ts'
import { explained } from './explained.ts'

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
export type Classroom50Result = z.infer<typeof classroom50Schema>

/** The harness describes itself in environment variables. */
export function classroom50Of(graded: Graded, environment: NodeJS.ProcessEnv = process.env): Classroom50Result {
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
    // A step that can't be judged has no place among tests that pass or fail, as its points are in neither sum.
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
