import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { OtherCluster, type Rewritten } from '../../../bench/made-class.ts'
import type { Capture } from '../../../cluster/capture-folder.ts'
import { type ClassKey, seedOf } from '../../../grading/class-key.ts'
import { writeSubmission } from '../../../instructors/submission/pack.ts'
import { readSubmission, type Submission } from '../../../instructors/submission/read-submission.ts'

export interface Forgery {
  /** What the forger's script writes again. */
  rewritten?: readonly Rewritten[]
  /** The same value is another one in each capture: a script without a memory. */
  forgetful?: boolean
  /** Milliseconds by which dates are moved. */
  laterMs?: number
  edit?: (capture: Capture, id: string, index: number) => void
  key?: ClassKey
}

/** A submission taken apart, made to look like the learner's own, and packed again, as a file. */
export async function repack(
  source: string | Submission,
  learner: string,
  { rewritten = [], forgetful = false, laterMs = 0, edit, key }: Forgery = {},
): Promise<string> {
  const { manifest, captures } = typeof source === 'string' ? await readSubmission(source) : source
  const all = [...captures.values()].map(({ capture }) => capture)
  const dates = rewritten.includes('dates') ? laterMs : 0
  const shared = new OtherCluster(all, learner, rewritten, laterMs)
  const moved = (date: string | number) => new Date(new Date(date).getTime() + dates).toISOString()
  const handedIn = [...captures].map(([id, { capture, takenAt }], index) => {
    const cluster = forgetful ? new OtherCluster(all, `${learner} ${id}`, rewritten, laterMs) : shared
    const own = structuredClone(cluster.rewrite(capture))
    edit?.(own, id, index)
    return { id, takenAt: moved(takenAt), capture: own }
  })
  const { schema: _schema, captures: _captures, ...about } = manifest
  const bytes = writeSubmission(
    {
      ...about,
      learner,
      seed: seedOf(learner),
      submittedAt: moved(about.submittedAt),
      steps: about.steps.map((step) => (step.passedAt ? { ...step, passedAt: moved(step.passedAt) } : step)),
    },
    handedIn,
    key,
  )
  const file = join(mkdtempSync(join(tmpdir(), 'repack-')), `${learner}-lab${manifest.lab}.labgrade`)
  writeFileSync(file, bytes)
  return file
}
