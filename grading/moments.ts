import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import * as z from 'zod'
import type { Capture } from '../cluster/capture-folder.ts'
import { cacheFolder } from '../host/layout.ts'
import { birthMarks, clusterIdentity } from './api-object.ts'
import { attemptOf } from './attempt.ts'
import type { StepOutcome } from './failure.ts'
import { listLabs } from './lab-definition.ts'
import type { Snapshot } from './snapshot.ts'

const indexSchema = z.object({
  identity: z.string(),
  /**
   * Step → when it passed first, and the file with the capture of that moment; the file with an
   * earlier capture on which its state held while it waited for a prediction or answer; in which
   * attempt, if it has attempts; what help had cost.
   */
  steps: z.record(
    z.string(),
    z.object({
      passedAt: z.iso.datetime().optional(),
      capture: z.string().optional(),
      held: z.string().optional(),
      attempt: z.string().optional(),
      cost: z.number().optional(),
    }),
  ),
})
type MomentIndex = z.infer<typeof indexSchema>

const keptSchema = z.object({
  takenAt: z.number(),
  objects: z.object({ items: z.array(z.unknown()) }),
  nodes: z.array(z.object({ name: z.string(), files: z.array(z.tuple([z.string(), z.string()])) })),
})

/** A step whose capture is to be stored. */
interface Fresh {
  id: string
  attempt: string | undefined
  cost: number | undefined
  hasPassed: boolean
}

/** A capture that was stored, and when it was taken, in milliseconds since the epoch. */
export interface StoredCapture {
  takenAt: number
  capture: Capture
}

/** A passed step, and the capture of that moment. */
export interface Moment extends StoredCapture {
  step: string
  passedAt: string
  /**
   * An earlier capture on which the step's state held, before its prediction or answer was given.
   */
  beforeAnswer?: StoredCapture
}

/**
 * Stores, for one cluster, the capture of the moment when each step of a lab passed for the first
 * time, and that of the moment when its state held first if the learner answered later. A folder in
 * `.cache/` per cluster and lab; one compressed file per capture, shared by its steps. A new
 * cluster of the same name starts empty.
 */
export class Moments {
  readonly #folder: string

  constructor(driver: string, cluster: string, root = cacheFolder) {
    this.#folder = join(root, 'moments', `${driver}-${cluster}`)
  }

  /**
   * Stores the snapshot for steps that passed for the first time, or whose state held for the first
   * time, also in a new attempt. Does nothing if there are none.
   */
  keep(lab: number, snapshot: Snapshot, outcomes: readonly StepOutcome[]): void {
    const holding = outcomes.filter(({ verdict, unanswered }) => verdict === 'passed' || unanswered)
    if (holding.length === 0) return
    const identity = clusterIdentity(birthMarks(snapshot.items))
    const known = this.#readIndex(lab)
    const isNewCluster = known.identity !== identity
    const index = isNewCluster ? { identity, steps: {} } : known
    const fresh = holding
      .map(({ id, verdict, cost }): Fresh => {
        const attempt = attemptOf(snapshot, lab, id)
        return { id, attempt, cost, hasPassed: verdict === 'passed' }
      })
      .filter(({ id, attempt, hasPassed }) => {
        const before = index.steps[id]
        if (!before || (attempt !== undefined && before.attempt !== attempt)) return true
        return hasPassed && before.passedAt === undefined
      })
    if (fresh.length === 0) return
    try {
      if (isNewCluster) rmSync(this.#labFolder(lab), { recursive: true, force: true })
      this.#write(lab, index, snapshot.capture, fresh)
    } catch {
      // If the disk is full, the capture is not stored and grading continues.
    }
  }

  /**
   * The moments of steps that passed, in no particular order. Damaged or missing files are omitted.
   */
  all(lab: number): Moment[] {
    return Object.entries(this.#readIndex(lab).steps).flatMap(
      ([step, { passedAt, capture: file, held: earlierFile }]) => {
        const passed = passedAt === undefined ? undefined : this.#readCapture(lab, file)
        if (!passed || passedAt === undefined) return []
        const beforeAnswer = this.#readCapture(lab, earlierFile)
        return [{ step, passedAt, ...passed, ...(beforeAnswer && { beforeAnswer }) }]
      },
    )
  }

  /**
   * The steps of a lab that passed on this cluster, in their current attempt, each with what help
   * had cost by then.
   */
  passed(lab: number, snapshot: Snapshot): Map<string, { cost: number }> {
    const { identity, steps } = this.#readIndex(lab)
    if (identity !== clusterIdentity(birthMarks(snapshot.items))) return new Map()
    return new Map(
      Object.entries(steps)
        .filter(
          ([id, { attempt, passedAt }]) =>
            passedAt !== undefined && attempt === attemptOf(snapshot, lab, id),
        )
        .map(([id, { cost = 0 }]) => [id, { cost }]),
    )
  }

  /** Labs with moments. */
  labs(): number[] {
    return listLabs().flatMap(({ number }) => (existsSync(this.#indexFile(number)) ? [number] : []))
  }

  #write(lab: number, index: MomentIndex, capture: Capture, fresh: readonly Fresh[]): void {
    const kept: z.infer<typeof keptSchema> = {
      takenAt: capture.takenAt ?? Date.now(),
      objects: capture.objects,
      nodes: capture.nodes.map(({ name, files }) => ({ name, files: [...files] })),
    }
    const text = JSON.stringify(kept)
    const file = `${createHash('sha256').update(text).digest('hex').slice(0, 16)}.json.gz`
    mkdirSync(this.#labFolder(lab), { recursive: true })
    writeFileSync(join(this.#labFolder(lab), file), gzipSync(text, { level: 1 }))
    const passedAt = new Date(kept.takenAt).toISOString()
    for (const { id, attempt, cost, hasPassed } of fresh) {
      const before = index.steps[id]
      const earlier = before?.attempt === attempt ? before?.held : undefined
      index.steps[id] = {
        ...(hasPassed ? { passedAt, capture: file } : { held: file }),
        ...(hasPassed && earlier !== undefined && { held: earlier }),
        ...(attempt !== undefined && { attempt }),
        ...(cost !== undefined && { cost }),
      }
    }
    // Atomic, because another process may read the index now.
    writeFileSync(`${this.#indexFile(lab)}.new`, `${JSON.stringify(index, null, 1)}\n`)
    renameSync(`${this.#indexFile(lab)}.new`, this.#indexFile(lab))
  }

  #readIndex(lab: number): MomentIndex {
    try {
      return indexSchema.parse(JSON.parse(readFileSync(this.#indexFile(lab), 'utf8')))
    } catch {
      return { identity: '', steps: {} }
    }
  }

  #readCapture(lab: number, file: string | undefined): StoredCapture | undefined {
    if (file === undefined) return undefined
    try {
      const text = gunzipSync(readFileSync(join(this.#labFolder(lab), file))).toString('utf8')
      const { takenAt, objects, nodes } = keptSchema.parse(JSON.parse(text))
      const capture: Capture = {
        objects: { apiVersion: 'v1', kind: 'List', items: objects.items },
        nodes: nodes.map(({ name, files }) => ({ name, files: new Map(files) })),
        takenAt,
      }
      return { takenAt, capture }
    } catch {
      return undefined
    }
  }

  #labFolder(lab: number): string {
    return join(this.#folder, `lab-${lab}`)
  }

  #indexFile(lab: number): string {
    return join(this.#labFolder(lab), 'index.json')
  }
}
