import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import * as z from 'zod'
import { cannotStartLab } from '../cluster/doctor/choose.ts'
import type { LabNeeds } from '../cluster/doctor/facts.ts'
import type { Cluster } from '../cluster/driver.ts'
import { projectRoot } from '../host/layout.ts'
import { Refusal } from '../host/main.ts'
import { askedTextSchema } from './asked-text.ts'
import { Trouble } from './failure.ts'

const sentence = z.string().trim().min(10)
const kernelNeed = z.enum(['ipvs', 'ipset', 'recent', 'nft'])
const stepDefinitionSchema = z.strictObject({
  id: z.string().regex(/^[a-z][a-z0-9-]*$/),
  title: sentence,
  /**
   * Asked before the step's commands: the first answer is kept and compared with what the nodes
   * show; wrong costs nothing.
   */
  predict: askedTextSchema.optional(),
  /** A question, answered with `make answer`; the correct answer is computed from the cluster. */
  question: askedTextSchema.optional(),
  points: z.number().int().min(1).max(20),
  /**
   * Those of its points that are earned by prediction and question; `understandingPoints` has the
   * default.
   */
  understanding: z.number().int().min(0).optional(),
  /** Steps that must pass before this one is judged. */
  needs: z.array(z.string()).default([]),
  /**
   * The kernel features that only this step requires: on a cluster without them the judge calls it
   * not applicable.
   */
  kernel: z.array(kernelNeed).default([]),
  /** About a temporary state: the step is recorded when it passes, and remains passed. */
  moment: z.boolean().default(false),
  why: sentence,
  /** From a general hint to the command. */
  hints: z.array(sentence).min(2),
})
/** A question about an earlier lab, asked at the start of this one; it earns no points. */
const recallSchema = z.strictObject({
  id: z.string().regex(/^[a-z][a-z0-9-]*$/),
  ask: sentence.endsWith('?'),
  choices: z.array(z.string().trim().min(1)).min(2).default([]),
  accepts: z.array(z.string().trim().min(1)).min(1),
  /** Typical wrong answers, with the misconception behind each. */
  wrong: z.array(z.strictObject({ when: z.string().trim().min(1), because: sentence })).default([]),
  because: sentence,
})
/** A part of a long lab, from its first step to the step before the next part. */
const partSchema = z.strictObject({
  id: z.string().regex(/^[a-z]$/),
  title: sentence.or(z.string().trim().min(3)),
  minutes: z.number().int().positive(),
  first: z.string(),
})
const labSchema = z.strictObject({
  id: z.number().int().positive(),
  title: sentence,
  /**
   * The one place for a lab's duration: the text and the README's table are compared with it, it
   * with `effortOf`.
   */
  minutes: z.number().int().positive(),
  /** Those of its minutes for work without instructions, such as incidents. */
  unguided: z.number().int().min(0).default(0),
  /**
   * The kernel features that the lab requires in addition to iptables; `make doctor` shows which
   * clusters have them.
   */
  kernel: z.array(kernelNeed).default([]),
  /**
   * Its steps judge a measurement, which `make measure` takes in User-Mode Linux on this machine.
   */
  measures: z.boolean().default(false),
  recall: z.array(recallSchema).default([]),
  parts: z.array(partSchema).default([]),
  steps: z.array(stepDefinitionSchema).min(1),
})
const claimsSchema = z.record(
  z.string().regex(/^[A-Z]\d+$/),
  z.array(z.string().regex(/^\d+\/[a-z0-9-]+$/)).min(1),
)

export type StepDefinition = z.infer<typeof stepDefinitionSchema> & { claims: string[] }

/** The definition of a lab, from its folder. */
export interface LabDefinition extends LabNeeds {
  /** Name of the folder in labs/ and stem of the spec in checks/: `02-ipvs`. */
  folder: string
  title: string
  minutes: number
  recall?: readonly RecallQuestion[]
  parts?: readonly LabPart[]
  steps: StepDefinition[]
}

export type RecallQuestion = z.infer<typeof recallSchema>
export type LabPart = z.infer<typeof partSchema>

/** The content of lab.yaml, without labs/claims.yaml. */
export type WrittenLab = z.infer<typeof labSchema>

/**
 * Reads the text of a lab.yaml. Throws Error with every fault against the schema, or the first step
 * that does not precede its need.
 */
export function parseLab(text: string, file: string): WrittenLab {
  const read = labSchema.safeParse(parse(text))
  if (!read.success) throw new Error(`${file} is not a lab: ${z.prettifyError(read.error)}`)
  const [fault] = labFaults(read.data)
  if (fault !== undefined) throw new Error(`${file}: ${fault}.`)
  return read.data
}

/** What is wrong between the parts of a lab that each fit the schema. */
function* labFaults({ steps, recall, parts }: WrittenLab): Generator<string> {
  const ids = new Set<string>()
  for (const step of steps) {
    yield* stepFaults(step, ids)
    ids.add(step.id)
  }
  for (const { id, choices, accepts } of recall) {
    if (ids.has(id)) yield `"${id}" is the id of a step and of a recall, or of two recalls`
    ids.add(id)
    if (choices.length > 0 && !accepts.every((answer) => choices.includes(answer)))
      yield `recall "${id}" accepts an answer that is not among its choices`
  }
  const lost = parts.find(({ first }) => !steps.some(({ id }) => id === first))
  if (lost) yield `part "${lost.id}" begins with "${lost.first}", which is not a step`
}

/** What is wrong with a step after the steps with these ids. */
function* stepFaults(
  step: WrittenLab['steps'][number],
  earlier: ReadonlySet<string>,
): Generator<string> {
  const { id, needs, points, understanding, predict, question } = step
  const unknown = needs.find((need) => !earlier.has(need))
  if (unknown) yield `step "${id}" needs "${unknown}", which does not precede it`
  if (earlier.has(id)) yield `there are two steps "${id}"`
  if ((understanding ?? 0) > points)
    yield `step "${id}" has ${points} points, fewer than its understanding`
  if (understanding !== undefined && !predict && !question)
    yield `step "${id}" has understanding, but neither predicts nor asks`
}

/**
 * Reads `labs/NN-name/lab.yaml`, and its steps' claims from `labs/claims.yaml`. Throws Error with
 * the existing labs, or as `parseLab`.
 */
export function readLab(number: number): LabDefinition {
  const folder = labFolder(number)
  const file = join(labsFolder, folder, 'lab.yaml')
  const { id: _id, steps, ...lab } = parseLab(readFileSync(file, 'utf8'), file)
  const claims = readClaims()
  const withClaims = steps.map((step) => ({ ...step, claims: claimsOf(claims, number, step.id) }))
  const kernelOfSteps = [...new Set(steps.flatMap(({ kernel }) => kernel))]
  return { number, folder, ...lab, kernelOfSteps, steps: withClaims }
}

/** Claim id → the steps (`lab/step`) that prove it. */
export function readClaims(): Record<string, string[]> {
  return parseClaims(readFileSync(join(labsFolder, 'claims.yaml'), 'utf8'))
}

/** Reads the text of claims.yaml. Throws Error for an invalid id or place. */
export function parseClaims(text: string): Record<string, string[]> {
  return claimsSchema.parse(parse(text))
}

function claimsOf(claims: Record<string, string[]>, lab: number, step: string): string[] {
  return Object.keys(claims).filter((claim) => claims[claim]?.includes(`${lab}/${step}`))
}

/** The step of that id or number. Throws with the list of both when there is none. */
export function findStep(lab: LabDefinition, requested: string): StepDefinition {
  const step = lab.steps.find(({ id }, index) => requested === id || requested === `${index + 1}`)
  if (step) return step
  const known = lab.steps.map(({ id }) => id).join(', ')
  throw new Error(
    `Lab ${lab.number} has no step "${requested}": its steps are ${known}, or by number 1 to ${lab.steps.length}.`,
  )
}

/** The id and the ids of all steps that must have passed before it, in the order of the lab. */
export function neededSteps({ steps }: Pick<WrittenLab, 'steps'>, id: string): string[] {
  const needed = new Set([id])
  for (const step of steps.toReversed())
    if (needed.has(step.id)) for (const one of step.needs) needed.add(one)
  return steps.map((step) => step.id).filter((one) => needed.has(one))
}

/**
 * Throws Trouble if the kernel of a running cluster lacks a feature that a lab needs, which is not
 * the learner's fault.
 */
export async function mustRunHere(cluster: Cluster, lab: LabDefinition): Promise<void> {
  // Most labs need no special kernel feature.
  if (!lab.kernel?.length) return
  const { kernelLackOf } = await import('../cluster/doctor/gather.ts')
  const lacking = await kernelLackOf(cluster, lab.kernel)
  if (lacking.length === 0) return
  const { driver, name, capabilities } = cluster
  const where = `the kernel of the ${driver} cluster "${name}" has no ${lacking.join(' and no ')}`
  const elsewhere = capabilities.choosesKernel
    ? `\`NAME=${name}-uml KERNEL=uml make lab-${lab.number}\``
    : 'CLUSTER=embedded'
  throw new Trouble(cannotStartLab(lab, `${where}, that of ${elsewhere} has`))
}

/** Reads the number of a lab. Throws a Refusal with an example. */
export function labNumber(text: string | undefined): number {
  const number = Number(text)
  if (Number.isInteger(number) && number > 0) return number
  throw new Refusal(
    `"${text ?? ''}" is not the number of a lab: write it as in \`make check-2\`, or LAB=2.`,
  )
}

const labsFolder = join(projectRoot, 'labs')

/** Numbers and folders of the labs, in order. */
export function listLabs(): { number: number; folder: string }[] {
  return readdirSync(labsFolder)
    .filter((name) => /^\d\d-/.test(name) && existsSync(join(labsFolder, name, 'lab.yaml')))
    .map((name) => ({ number: Number(name.slice(0, 2)), folder: name }))
    .sort((a, b) => a.number - b.number)
}

/** The folder of a lab. Throws Error with the existing labs. */
function labFolder(number: number): string {
  const labs = listLabs()
  const found = labs.find((lab) => lab.number === number)
  if (found) return found.folder
  throw new Error(
    `There is no lab "${number}": the labs are ${labs.map((lab) => lab.number).join(', ')}.`,
  )
}
