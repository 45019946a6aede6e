import { createHash } from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import type { Baseline } from './baseline.ts'
import type { IncidentEnvironment } from './shop.ts'

/** The step of lab 8 that asks for the cause. */
export const DIAGNOSIS = 'diagnosis'

/** The keys of the lab's ConfigMap. */
export const INCIDENT_KEY = 'incident'
export const CLOSED_KEY = 'closed'
export const HISTORY_KEY = 'history'
export const GUESS_PREFIX = 'guess.'

/** An open incident as the lab notes in the cluster store it. */
export interface IncidentNote {
  /** The sealed secret for the grader: it is encoded, not encrypted, so that a learner does not read it by accident. */
  sealed: string
  report: string
  /** Plausible causes by their ids. */
  choices: string[]
  seed: string
  openedAt: string
  /** Tiers of hints that were shown. */
  hints: number
  /**
   * Digest of the cluster after the symptom was confirmed (fingerprintOf); only for clusters that record
   * commands on nodes.
   */
  fingerprint?: string
}

/** The content of the secret. */
export interface Secret {
  id: string
  environment: IncidentEnvironment
  baseline: Baseline
}

/** The result of a solved incident. */
export interface ClosedNote {
  at: string
}

/** What each hint and each wrong diagnosis costs of the points of the step `diagnosis`. */
export const COST = 5

/** Encodes a secret so that its text is not readable at a glance. */
export function seal({ environment, ...rest }: Secret): string {
  return deflateRawSync(Buffer.from(JSON.stringify({ ...rest, scene: environment }))).toString('base64')
}

/** Decodes what `seal` encoded; undefined for anything else. */
export function unseal(text: string): Secret | undefined {
  try {
    const secret: unknown = JSON.parse(inflateRawSync(Buffer.from(text, 'base64')).toString())
    if (!isStoredSecret(secret)) return undefined
    const { scene: environment, ...rest } = secret
    return { ...rest, environment }
  } catch {
    return undefined
  }
}

/** Notes store the environment as `scene`. */
type StoredSecret = Omit<Secret, 'environment'> & { scene: IncidentEnvironment }

const isStoredSecret = (value: unknown): value is StoredSecret =>
  isRecord(value) && typeof value.id === 'string' && isRecord(value.scene) && isRecord(value.baseline)

/** A solved incident in the history, also sealed. */
export const solvedMark = (id: string): string =>
  createHash('sha256').update(`solved incident ${id}`).digest('hex').slice(0, 12)

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

export const isIncidentNote = (value: unknown): value is IncidentNote =>
  isRecord(value) &&
  ['sealed', 'report', 'seed', 'openedAt'].every((key) => typeof value[key] === 'string') &&
  Array.isArray(value.choices) &&
  typeof value.hints === 'number'

export const isClosedNote = (value: unknown): value is ClosedNote => isRecord(value) && typeof value.at === 'string'
