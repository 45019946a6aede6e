import { createHash } from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import * as z from 'zod'
import { ATTEMPT_KEY } from '../../grading/attempt.ts'
import type { Baseline } from './baseline.ts'
import { INCIDENT_LAB, type IncidentEnvironment } from './shop.ts'

/** The step of lab 8 that asks for the cause. */
export const DIAGNOSIS = 'diagnosis'
/** The step of another lab that consists of one incident. */
export const INCIDENT_STEP = 'incident'
/** The step that asks for the cause. */
export const askingStep = (lab: number): string =>
  lab === INCIDENT_LAB ? DIAGNOSIS : INCIDENT_STEP
/** The command that starts an incident of a lab; with SHOW=1 or HINT=1 it shows it, or a hint. */
export function incidentCommand(lab: number, option?: 'SHOW=1' | 'HINT=1'): string {
  const args = lab === INCIDENT_LAB ? [option] : [`LAB=${lab}`, option]
  return ['make incident', ...args.filter(Boolean)].join(' ')
}
/** The steps that belong to an incident, in lab 8 and in another lab. */
export const incidentSteps = (lab: number): string[] =>
  lab === INCIDENT_LAB ? [DIAGNOSIS, 'report', 'cause', 'rules', 'whole'] : [INCIDENT_STEP]

/** The keys of the lab's ConfigMap. */
export const INCIDENT_KEY = 'incident'
export const CLOSED_KEY = 'closed'
export const HISTORY_KEY = 'history'
export const GUESS_PREFIX = 'guess.'

/**
 * True for the key of a note that belongs to one incident of a lab, which the next one must not
 * find.
 */
export function belongsToIncident(lab: number, key: string): boolean {
  const [, step = ''] = key.split('.')
  if (key.startsWith(GUESS_PREFIX) || incidentSteps(lab).includes(step)) return true
  // In lab 8 the guide's progress is that of one incident.
  return (
    [INCIDENT_KEY, CLOSED_KEY, ATTEMPT_KEY].includes(key) ||
    (lab === INCIDENT_LAB && key === 'guide')
  )
}

/** An open incident as the lab notes in the cluster store it. */
export const incidentNote = z.object({
  /**
   * The sealed secret for the grader: it is encoded, not encrypted, so that a learner does not read
   * it by accident.
   */
  sealed: z.string(),
  report: z.string(),
  /** The ids of the possible causes; none in hard mode. */
  choices: z.array(z.string()),
  /** The cause is named in the learner's own words. */
  hard: z.boolean().optional(),
  seed: z.string(),
  openedAt: z.string(),
  /** Tiers of hints that were shown. */
  hints: z.number(),
  /**
   * It was started by its id, so the learner knows it: the lab's text goes through one such
   * incident.
   */
  isNamed: z.boolean().optional(),
  /**
   * Digest of the cluster after the symptom was confirmed (fingerprintOf); only for clusters that
   * record commands on nodes.
   */
  fingerprint: z.string().optional(),
})

export type IncidentNote = z.infer<typeof incidentNote>

/** When it was repaired. */
export const closedNote = z.object({ at: z.string() })

/** What each hint and each wrong diagnosis costs of the points of the step `diagnosis`. */
export const COST = 5

/** The content of the secret. Notes store the environment as `scene`. */
const secretSchema = z
  .object({
    id: z.string(),
    scene: z.custom<IncidentEnvironment>((value) => value instanceof Object),
    baseline: z.custom<Baseline>((value) => value instanceof Object),
  })
  .transform(({ scene, ...rest }) => ({ ...rest, environment: scene }))
type IncidentSecret = z.output<typeof secretSchema>

/** Encodes a value so that it is not readable at a glance. */
export const sealValue = (value: unknown): string =>
  deflateRawSync(Buffer.from(JSON.stringify(value))).toString('base64')

/** Decodes what `sealValue` encoded. Throws Error for anything else. */
export const unsealValue = (text: string): unknown =>
  JSON.parse(inflateRawSync(Buffer.from(text, 'base64')).toString())

/** Encodes a secret so that its text is not readable at a glance. */
export const seal = ({ environment, ...rest }: IncidentSecret): string =>
  sealValue({ ...rest, scene: environment })

/** Decodes what `seal` encoded; undefined for anything else. */
export function unseal(text: string): IncidentSecret | undefined {
  try {
    return secretSchema.parse(unsealValue(text))
  } catch {
    return undefined
  }
}

/** A solved incident in the history, also sealed. */
export const solvedMark = (id: string): string =>
  createHash('sha256').update(`solved incident ${id}`).digest('hex').slice(0, 12)

/** Seconds as people read them: `8 min 5 s`. */
export function describeSeconds(seconds: number): string {
  const minutes = Math.floor(seconds / 60)
  return minutes === 0 ? `${seconds} s` : `${minutes} min ${seconds % 60} s`
}
