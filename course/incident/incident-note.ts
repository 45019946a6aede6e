import { createHash } from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import type { Baseline } from './baseline.ts'
import type { Scene } from './scene.ts'

/** The step of lab 8 that asks for the cause. */
export const DIAGNOSIS = 'diagnosis'

/** The keys of the lab's ConfigMap. */
export const INCIDENT_KEY = 'incident'
export const CLOSED_KEY = 'closed'
export const HISTORY_KEY = 'history'
export const GUESS_PREFIX = 'guess.'

/** An open incident as the cluster keeps it. */
export interface IncidentNote {
  /** What only the grader is to read: honest learners do not look into it, and at a glance nobody can. */
  sealed: string
  report: string
  /** Plausible causes, by the word that names each. */
  choices: string[]
  seed: string
  openedAt: string
  /** Tiers of hints that were asked for. */
  hints: number
  /** What could be repaired through, once the break had been seen to hold; only where commands on nodes are noted, too. */
  fingerprint?: string
}

/** What is sealed. */
export interface Secret {
  id: string
  scene: Scene
  baseline: Baseline
}

/** How it ended. */
export interface ClosedNote {
  at: string
  points: number
}

/** Packs a secret so that no word of it can be read by looking at it. */
export function seal(secret: Secret): string {
  return deflateRawSync(Buffer.from(JSON.stringify(secret))).toString('base64')
}

/** Opens what `seal` packed; undefined for anything else. */
export function unseal(text: string): Secret | undefined {
  try {
    const secret: unknown = JSON.parse(inflateRawSync(Buffer.from(text, 'base64')).toString())
    return isSecret(secret) ? secret : undefined
  } catch {
    return undefined
  }
}

const isSecret = (value: unknown): value is Secret =>
  isRecord(value) && typeof value.id === 'string' && isRecord(value.scene) && isRecord(value.baseline)

/** An incident that was solved, as the history keeps it: again nothing to read. */
export const solvedMark = (id: string): string =>
  createHash('sha256').update(`solved incident ${id}`).digest('hex').slice(0, 12)

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

export const isIncidentNote = (value: unknown): value is IncidentNote =>
  isRecord(value) &&
  ['sealed', 'report', 'seed', 'openedAt'].every((key) => typeof value[key] === 'string') &&
  Array.isArray(value.choices) &&
  typeof value.hints === 'number'

export const isClosedNote = (value: unknown): value is ClosedNote =>
  isRecord(value) && typeof value.at === 'string' && typeof value.points === 'number'
