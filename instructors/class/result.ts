// The result of grading a class, version 1. `instructors/schema/class.v1.json` is generated from
// this file.

import * as z from 'zod'
import { examPart } from '../../course/incident/exam-note.ts'
import {
  findingFields,
  stepSchema,
  verdictSchema,
  withOldCommand,
} from '../../grading/report-schema.ts'

const flagSchema = z.object({
  kind: z
    .enum([
      'same cluster',
      'same objects',
      'same captures',
      'class',
      'task',
      'variant',
      'seed',
      'claims',
      'name',
      'twice',
      'clusters',
    ])
    .describe('what gave rise to it'),
  text: z.string().describe('one sentence; a reason to look, never a verdict'),
})

/** A step of a report without what only its learner needs. */
const gradedStepSchema = stepSchema
  .pick({ id: true, title: true, verdict: true, points: true, maxPoints: true, reason: true })
  .extend({
    claimed: verdictSchema.optional().describe("what the learner's own grader said"),
    finding: withOldCommand(
      findingFields.pick({
        node: true,
        inspect: true,
        expected: true,
        actual: true,
        why: true,
        hint: true,
      }),
    ).optional(),
  })

const examResultSchema = z
  .object({
    seed: z.string().describe('the same seed draws the same incidents on the same kind of cluster'),
    hard: z.boolean().describe('causes are named in the learner’s own words'),
    startedAt: z.string(),
    endedAt: z.string().optional().describe('absent while incidents of it are not handed in'),
    of: z.number().int().describe('its incidents'),
    points: z.number().int().nonnegative().describe('of the incidents that were handed in'),
    maxPoints: z.number().int().nonnegative(),
    parts: z.array(examPart).describe('the incidents that were handed in, in their order'),
  })
  .describe('the exam of lab 8, as the notes of the cluster have it')

export const gradedSchema = z.object({
  file: z.string().describe('as handed in, without its folder; or the name of a live cluster'),
  learner: z.string(),
  lab: z.number().int(),
  title: z.string(),
  submittedAt: z.string(),
  counts: z.boolean().describe('false for an earlier attempt of the same learner'),
  signature: z.enum(['valid', 'not checked', 'none', 'live']),
  cluster: z.object({ driver: z.string(), identity: z.string() }),
  versions: z.object({
    kubeProxy: z.string().optional(),
    mode: z.string().optional(),
    kernel: z.string().optional(),
  }),
  score: z.number().int().nonnegative(),
  maxScore: z.number().int().nonnegative(),
  steps: z.array(gradedStepSchema),
  answers: z.array(z.object({ question: z.string(), answer: z.string() })),
  exam: examResultSchema.optional(),
  flags: z.array(flagSchema),
})

const stepCountsSchema = z.object({
  number: z.number().int(),
  id: z.string(),
  title: z.string(),
  learners: z.number().int().describe('for whom it could be judged'),
  passed: z.number().int(),
  failed: z.number().int().describe('failed or not yet'),
  notJudged: z.number().int().describe('not applicable or could not check'),
})

export const classSchema = z
  .object({
    schema: z.literal('kube-service-labs/class/v1'),
    gradedAt: z.iso.datetime(),
    seconds: z.number().nonnegative(),
    graded: z.array(gradedSchema),
    refused: z.array(z.object({ file: z.string(), reason: z.string().describe('one sentence') })),
    labs: z.array(
      z.object({
        lab: z.number().int(),
        title: z.string(),
        learners: z.number().int(),
        finished: z
          .number()
          .int()
          .describe('learners who have passed every step that could be judged'),
        meanPercent: z.number(),
        steps: z.array(stepCountsSchema),
      }),
    ),
    cannotKnow: z.array(z.string()).describe('what no grading of captures can tell'),
    exitCode: z
      .union([z.literal(0), z.literal(1), z.literal(2)])
      .describe(
        '0: all were graded; 2: a file was refused or nothing was graded; 1 is no longer used',
      ),
  })
  .describe('The result of grading a class once')

export type ClassResult = z.infer<typeof classSchema>
export type Graded = z.infer<typeof gradedSchema>
export type ExamResult = z.infer<typeof examResultSchema>
export type GradedStep = z.infer<typeof gradedStepSchema>
export type Flag = z.infer<typeof flagSchema>
export type LabSummary = ClassResult['labs'][number]

/** What a step found, in one line: its difference, else its reason or verdict. */
export const foundText = ({ finding, reason, verdict }: GradedStep): string =>
  finding ? `expected ${finding.expected}, found ${finding.actual}` : (reason ?? verdict)
