// The machine-readable result of grading, version 1. `instructors/schema/report.v1.json` is
// generated from this file.

import * as z from 'zod'
import type { DifferenceText } from '../dataplane/compare.ts'

/**
 * The verdict on one step. `not yet`: it failed, but the cluster was still changing at the
 * deadline, or the step depends on another one. `not applicable`: it can't be judged (a capture of
 * another moment) and does not count. `could not check`: a problem of the cluster or the grader,
 * which never costs points.
 */
export const verdictSchema = z.enum([
  'passed',
  'failed',
  'not yet',
  'not applicable',
  'could not check',
])
export type Verdict = z.infer<typeof verdictSchema>

const differenceSchema: z.ZodType<DifferenceText> = z.object({
  kind: z
    .enum(['missing', 'stale', 'wrong', 'order'])
    .describe('missing: must be there; stale: must not; wrong: altered; order: elsewhere'),
  text: z.string().describe('one sentence'),
  expected: z.string().optional().describe('the line that must be there'),
  actual: z.string().optional().describe('the line that is there'),
})

export const findingFields = z.object({
  node: z
    .string()
    .optional()
    .describe('the node that it was seen on; absent for a fact of the API'),
  inspect: z.string().describe('a read-only command that shows it'),
  expected: z.string(),
  actual: z.string(),
  differences: z.array(differenceSchema),
  why: z.string().describe('why this matters'),
  hint: z.string().describe('what to try next'),
  next: z
    .string()
    .optional()
    .describe('the command to type next, where the difference itself says which'),
  evidence: z
    .string()
    .optional()
    .describe('the file that keeps the whole finding, relative to the checkout'),
})

/** Also reads a finding of version 0.1, which has its command as `look`. */
export const withOldCommand = <Fields extends z.ZodObject>(fields: Fields) =>
  z.preprocess((value) => {
    if (!(value instanceof Object) || !('look' in value)) return value
    const { look, ...others } = value
    return { inspect: look, ...others }
  }, fields)

const findingSchema = withOldCommand(findingFields)

const answerAt = { text: z.string(), at: z.string().describe('when it was given') }
const because = z.string().optional().describe('what really happens and why')
const learningSchema = z.object({
  prediction: z
    .object({
      ...answerAt,
      accepts: z.array(z.string()).optional().describe('what the nodes showed'),
      right: z.boolean().optional(),
      mistake: z
        .string()
        .optional()
        .describe('the misconception behind it, where it is a known one'),
      because,
    })
    .optional()
    .describe('the first one'),
  answer: z.object(answerAt).optional().describe('the last one'),
  answered: z
    .object({ ...answerAt, because })
    .optional()
    .describe('the right one'),
  wrongTries: z.number().int().nonnegative().describe('different wrong answers that cost points'),
  gaveUp: z.boolean().describe('the learner had the answer shown'),
})

export const stepSchema = z.object({
  id: z.string(),
  title: z.string().describe('a sentence that is true when the step is solved'),
  predict: z.string().optional().describe('what the step has the learner predict'),
  question: z.string().optional().describe('what the step asks, if it asks'),
  claims: z.array(z.string()),
  verdict: verdictSchema,
  points: z.number().int().nonnegative().describe('earned'),
  maxPoints: z.number().int().nonnegative(),
  waitsFor: z.array(z.string()).optional().describe('steps that must pass first'),
  reason: z
    .string()
    .optional()
    .describe('why it is not applicable, not yet, or could not be checked'),
  finding: findingSchema.optional(),
  measured: z.array(z.string()).optional().describe('what the step measured, in lines for people'),
  unanswered: z
    .enum(['prediction', 'answer'])
    .optional()
    .describe('all that is missing: the state holds'),
  learning: learningSchema.optional().describe('what the learner predicted and answered'),
})

export const reportSchema = z
  .object({
    schema: z.literal('kube-service-labs/report/v1'),
    lab: z.number().int(),
    title: z.string(),
    source: z.discriminatedUnion('kind', [
      z.object({ kind: z.literal('cluster'), driver: z.string(), name: z.string() }),
      z.object({ kind: z.literal('capture'), folder: z.string() }),
      z.object({ kind: z.literal('submission'), file: z.string() }),
    ]),
    gradedAt: z.iso.datetime(),
    seconds: z.number().nonnegative(),
    versions: z.object({
      node: z.string().describe("the grader's Node.js"),
      kubeProxy: z.string().optional().describe('kube-proxy of the cluster'),
      mode: z.string().optional().describe('the mode that the nodes run, when they agree'),
    }),
    steps: z.array(stepSchema),
    score: z.number().int().nonnegative(),
    maxScore: z.number().int().nonnegative().describe('of the steps that could be judged'),
    complete: z
      .boolean()
      .describe('false when only one step was asked for or something could not be checked'),
    exitCode: z.union([z.literal(0), z.literal(1), z.literal(2)]),
    notes: z
      .array(z.string())
      .optional()
      .describe('API objects that were left out because they cannot be read, and why'),
    trouble: z.string().optional().describe('why nothing could be judged'),
  })
  .describe('The result of grading one lab once')

export type Report = z.infer<typeof reportSchema>
export type StepReport = z.infer<typeof stepSchema>
/** What a learner has predicted and answered at a step. */
export type StepLearning = z.infer<typeof learningSchema>
export type Finding = z.infer<typeof findingSchema>
export type Source = Report['source']

/** JSON Schema (draft 2020-12) of a report. */
export function reportJsonSchema(): unknown {
  return z.toJSONSchema(reportSchema)
}
