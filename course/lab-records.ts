// What a learner has earned in each lab on a cluster, and how long it took.

import type { Cluster } from '../cluster/driver.ts'
import { listLabs, readLab } from '../grading/lab-definition.ts'
import { notesOf } from '../grading/lab-notes.ts'
import { Moments } from '../grading/moments.ts'
import { pointsWith } from '../grading/report.ts'
import type { Snapshot } from '../grading/snapshot.ts'
import { readGuideNote } from './lab-progress.ts'

export interface LabRecord {
  number: number
  isBegun: boolean
  /**
   * The points of steps that passed at some time on this cluster, which a submission is graded by.
   */
  kept: number
  of: number
  /** Minutes that the lab was open in a guide; 0 if it was not, or was reset since. */
  minutes: number
}

/** Points by the id of their step. */
export type KeptPoints = ReadonlyMap<string, number>

/** The records of all labs. */
export class LabRecords {
  readonly #moments: Moments
  readonly #labs = listLabs().map(({ number }) => readLab(number))

  constructor({ driver, name }: Pick<Cluster, 'driver' | 'name'>, root?: string) {
    this.#moments = new Moments(driver, name, root)
  }

  /** The records, by the notes in the cluster and the captures that were kept. */
  of(snapshot: Snapshot): LabRecord[] {
    return this.#labs.map(({ number, steps }) => {
      const notes = notesOf(snapshot.items, number)
      const { workedMs = 0 } = readGuideNote(notes?.data?.guide) ?? {}
      return {
        number,
        isBegun: notes !== undefined,
        kept: sum([...this.pointsOf(number, snapshot).values()]),
        of: sum(steps.map(({ points }) => points)),
        minutes: Math.floor(workedMs / 60_000),
      }
    })
  }

  /** The points that the steps of a lab gave when they passed first. */
  pointsOf(lab: number, snapshot: Snapshot): KeptPoints {
    const passed = this.#moments.passed(lab, snapshot)
    const steps = this.#labs.find(({ number }) => number === lab)?.steps ?? []
    return new Map(
      steps.flatMap(({ id, points }) => {
        const { cost } = passed.get(id) ?? {}
        return cost === undefined ? [] : [[id, pointsWith(points, { id, verdict: 'passed', cost })]]
      }),
    )
  }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
