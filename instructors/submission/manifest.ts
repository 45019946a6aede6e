// The content of `submission.json`, version 1 (`instructors/schema/submission.v1.json` is generated
// from it), and of objects.json.

import * as z from 'zod'
import { LEARNER_NAME } from '../../grading/class-key.ts'
import { verdictSchema } from '../../grading/report-schema.ts'
import { parseUntrustedJson, refuse } from './untrusted-text.ts'

/** Names of steps, captures: they are parts of paths and keys of reports. */
const name = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/)
const moment = z.iso.datetime()
const sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const short = z.string().max(200)

const captureSchema = z.object({
  id: name,
  takenAt: moment.describe('by the clock of the machine that took it'),
  files: z
    .array(
      z.object({
        path: z
          .string()
          .regex(
            /^(?:objects\.json|nodes\/[A-Za-z0-9][A-Za-z0-9.-]{0,62}\/[A-Za-z0-9][A-Za-z0-9._-]{0,62})$/,
          )
          .describe('as in a capture folder'),
        sha256: sha256.describe(
          'of the content, which is in the archive once, under captures/ID/PATH of the first capture that has it',
        ),
      }),
    )
    .max(400),
})

export const manifestSchema = z
  .object({
    schema: z.literal('kube-service-labs/submission/v1'),
    learner: z.string().regex(LEARNER_NAME),
    lab: z.number().int().positive().max(99),
    seed: z
      .string()
      .regex(/^[0-9a-f]{16}$/)
      .describe("the learner's own, from which variants grow"),
    submittedAt: moment,
    clock: z.object({
      offsetMinutes: z
        .number()
        .int()
        .min(-900)
        .max(900)
        .describe('of local time, east of Greenwich'),
    }),
    cluster: z.object({
      driver: short,
      name: short,
      identity: z
        .string()
        .regex(/^[0-9a-f]{16}$|^$/)
        .describe('a digest of the UIDs of its nodes'),
    }),
    versions: z.object({
      project: short,
      node: short,
      kubeProxy: short.optional(),
      mode: short.optional(),
      kernel: short.optional(),
    }),
    captures: z.array(captureSchema).max(100),
    steps: z
      .array(
        z.object({
          id: name,
          verdict: verdictSchema.describe(
            "the verdict of the learner's own grader; not used when graded again",
          ),
          passedAt: moment.optional(),
          capture: name.optional().describe('the cluster at the moment the step passed'),
          held: name
            .optional()
            .describe("the cluster when the step's state held, before the learner answered"),
        }),
      )
      .max(100),
    final: name.optional().describe('the capture at the time of submission'),
    answers: z.array(z.object({ question: short, answer: z.string().max(2000) })).max(100),
  })
  .describe('What a learner hands in: the description of the captures in a .labgrade archive')

export type Manifest = z.infer<typeof manifestSchema>
export type ManifestCapture = Manifest['captures'][number]

// Lists of objects are written with one object per line, which is fast to split and to compare.
const HEAD = '{"apiVersion":"v1","kind":"List","items":[\n'
const TAIL = '\n]}\n'
const BETWEEN = ',\n'

/** Prints a list of objects in the form of a submission; no item's JSON contains a line end. */
export const printItems = (items: readonly unknown[]): string =>
  `${HEAD}${items.map((item) => JSON.stringify(item)).join(BETWEEN)}${TAIL}`

const listSchema = z.object({ items: z.array(z.unknown()) })

/**
 * Reads a list of objects in any form. A line of printItems that is in `known` is not parsed again:
 * captures of one cluster differ in few objects.
 * @throws Refusal that names `what`
 */
export function readItems(text: string, what: string, known: Map<string, unknown>): unknown[] {
  if (!text.startsWith(HEAD) || !text.endsWith(TAIL)) {
    const read = listSchema.safeParse(parseUntrustedJson(text, what))
    return read.success ? read.data.items : refuse(`Its ${what} is not a list of objects.`)
  }
  const lines = text.slice(HEAD.length, -TAIL.length).split(BETWEEN)
  return lines.filter(Boolean).map((line) => {
    const item = known.get(line) ?? parseUntrustedJson(line, what)
    known.set(line, item)
    return item
  })
}

/**
 * Whether a submission was made by a version of this project whose steps predict and ask beside
 * their state: 0.2 or newer. Steps of older ones are judged by their state alone, as they were
 * then.
 */
export function hasPredictions({ versions }: Pick<Manifest, 'versions'>): boolean {
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(versions.project) ?? []
  return Number(major) > 0 || Number(minor) >= 2
}
