// The latest complete check of each step, with its requests: what one command or guide found, every
// other one shows.

import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import * as z from 'zod'
import { cacheFolder } from '../host/layout.ts'
import { birthMarks, clusterIdentity } from './api-object.ts'
import { attemptOf } from './attempt.ts'
import type { StepOutcome } from './failure.ts'
import type { Snapshot } from './snapshot.ts'

const fileSchema = z.object({
  /** Of the cluster: a new one of the same name has none of these checks. */
  identity: z.string(),
  steps: z.record(
    z.string(),
    z.object({
      at: z.number(),
      attempt: z.string().optional(),
      outcome: z.custom<StepOutcome>((value) => value instanceof Object && 'verdict' in value),
    }),
  ),
})
type Content = z.infer<typeof fileSchema>

/** A complete check and when it ended, in milliseconds since 1970. */
export interface CompleteCheck {
  at: number
  outcome: StepOutcome
}

/**
 * A folder in `.cache/` for each cluster, with a file for each lab; `make reset-N` deletes the
 * file.
 */
export class CompleteChecks {
  readonly folder: string

  constructor(driver: string, cluster: string, root = cacheFolder) {
    this.folder = join(root, 'checks', `${driver}-${cluster}`)
  }

  /**
   * Stores the outcomes of a check that may send packets. On a disk that is full or read-only,
   * other programs do not see them.
   */
  keep(lab: number, snapshot: Snapshot, outcomes: readonly StepOutcome[], at = Date.now()): void {
    const identity = clusterIdentity(birthMarks(snapshot.items))
    const before = this.#read(lab)
    const steps: Content['steps'] = before.identity === identity ? { ...before.steps } : {}
    for (const outcome of outcomes) {
      if (outcome.verdict !== 'passed' && outcome.verdict !== 'failed') continue
      const attempt = attemptOf(snapshot, lab, outcome.id)
      steps[outcome.id] = { at, outcome, ...(attempt !== undefined && { attempt }) }
    }
    const file = this.#file(lab)
    try {
      mkdirSync(dirname(file), { recursive: true })
      // Whole at any moment, for programs that read it meanwhile.
      writeFileSync(`${file}.${process.pid}`, JSON.stringify({ identity, steps }))
      renameSync(`${file}.${process.pid}`, file)
    } catch {
      // Grading continues.
    }
  }

  /** The checks of the steps of a lab on this cluster, those of another attempt left out. */
  of(lab: number, snapshot: Snapshot): Map<string, CompleteCheck> {
    const { identity, steps } = this.#read(lab)
    if (identity !== clusterIdentity(birthMarks(snapshot.items))) return new Map()
    return new Map(
      Object.entries(steps)
        .filter(([id, { attempt }]) => attempt === attemptOf(snapshot, lab, id))
        .map(([id, { at, outcome }]) => [id, { at, outcome }]),
    )
  }

  forget(lab: number): void {
    rmSync(this.#file(lab), { force: true })
  }

  #read(lab: number): Content {
    try {
      return fileSchema.parse(JSON.parse(readFileSync(this.#file(lab), 'utf8')))
    } catch {
      return { identity: '', steps: {} }
    }
  }

  #file(lab: number): string {
    return join(this.folder, `lab-${lab}.json`)
  }
}
