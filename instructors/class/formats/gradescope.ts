import { z } from 'zod'
import { plainText } from '../../../host/plain-text.ts'
import type { Graded, GradedStep } from '../result.ts'
import { explained } from './explained.ts'

/** What Gradescope's autograder reads from `results.json`, as its specification describes it. */
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
export type GradescopeResults = z.infer<typeof gradescopeSchema>

/** Flags are for the instructor alone, so they are in `extra_data`, which learners do not see. */
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
