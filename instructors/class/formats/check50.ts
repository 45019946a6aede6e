import { z } from 'zod'
import type { Graded, GradedStep } from '../result.ts'

/** A report in check50's JSON format: `passed` is null for a step that could not be judged, which is not a failure. */
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

export type Check50Report = z.infer<typeof check50Schema>

export function check50Of({ lab, learner, steps }: Graded): Check50Report {
  return {
    slug: `kube-service-labs/lab-${lab}`,
    version: '1',
    results: steps.map((step) => ({
      name: step.id,
      description: step.title,
      passed: passedOf(step),
      log: step.finding ? [step.finding.look] : [],
      cause: causeOf(step),
      data: { learner, points: step.points, maxPoints: step.maxPoints, verdict: step.verdict },
      dependency: WAITS.exec(step.reason ?? '')?.[1] ?? null,
    })),
  }
}

/** What waits for another step was not asked, as in check50; what no capture shows did not pass. */
function passedOf({ verdict, reason }: GradedStep): boolean | null {
  if (verdict === 'passed') return true
  if (verdict === 'failed') return false
  return verdict === 'not yet' && !WAITS.test(reason ?? '') ? false : null
}

function causeOf({ verdict, reason, finding }: GradedStep): Check50Report['results'][number]['cause'] {
  if (verdict === 'passed') return null
  if (!finding) return { rationale: reason ?? verdict, help: null }
  const { expected, actual, why, hint } = finding
  return { rationale: why, help: hint, expected, actual }
}
