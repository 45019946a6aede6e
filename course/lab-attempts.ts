import { attemptOf } from '../grading/attempt.ts'
import type { LabDefinition } from '../grading/lab-definition.ts'
import type { Snapshot } from '../grading/snapshot.ts'

/**
 * Which steps have begun again since the last read, because another incident was opened, by
 * whichever command.
 */
export class LabAttempts {
  /** By `LAB/STEP`, the attempt to which a step belonged at the last read. */
  #latest: ReadonlyMap<string, string | undefined> = new Map()

  /** The steps of a lab whose task is another one than at the last read of that lab. */
  begunAgain(
    { number, steps }: Pick<LabDefinition, 'number' | 'steps'>,
    snapshot: Snapshot,
  ): string[] {
    const keyOfStep = (id: string) => `${number}/${id}`
    const before = this.#latest
    this.#latest = new Map(steps.map(({ id }) => [keyOfStep(id), attemptOf(snapshot, number, id)]))
    return steps
      .map(({ id }) => id)
      .filter((id) => before.has(keyOfStep(id)))
      .filter((id) => before.get(keyOfStep(id)) !== this.#latest.get(keyOfStep(id)))
  }
}
