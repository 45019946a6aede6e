import { join } from 'node:path'
import { OtherCluster, type Rewritten, withTexts } from '../../../bench/made-class.ts'
import type { Capture } from '../../../cluster/capture-folder.ts'
import { type ClassKey, seedOf } from '../../../grading/class-key.ts'
import { loadSpec } from '../../../grading/grader.ts'
import { projectRoot } from '../../../host/layout.ts'
import type { Manifest } from '../../../instructors/submission/manifest.ts'
import { writeSubmission } from '../../../instructors/submission/pack.ts'
import { readSubmission, type Submission } from '../../../instructors/submission/read-submission.ts'
import { fileOf } from './tar-bytes.ts'

/** The recorded submissions of solved labs. */
export const SOLVED = join(projectRoot, 'data/solved')
/** Lab 2 as solved on the embedded cluster and handed in, learner alice. */
export const ALICE = join(SOLVED, 'lab-2-embedded.labgrade')

const { steps } = await loadSpec({ folder: '02-ipvs' })
/** The points of the steps that captures can show, all of which ALICE has passed. */
export const ALICE_POINTS = steps
  .filter(({ needsCluster }) => !needsCluster)
  .reduce((sum, { points }) => sum + points, 0)

let alice: Promise<Submission> | undefined

export interface Change {
  /** The submission that is changed; default: that of ALICE. */
  source?: Submission
  /** What is replaced, as if the captures came from another cluster. */
  rewritten?: readonly Rewritten[]
  /** Milliseconds by which dates are moved. */
  laterMs?: number
  edit?: (capture: Capture, id: string, index: number) => void
  /** Edits any file of any capture; `path` as in a capture folder. */
  text?: (text: string, path: string, capture: string) => string
  /** Edits the description; `captures` is written again from the contents. */
  manifest?: (manifest: Manifest) => void
  key?: ClassKey
}

/**
 * The bytes of a submission after a change, made to look like the learner's own, otherwise as
 * `make submit` writes it.
 */
export async function changed(
  learner: string,
  { source, rewritten = [], laterMs = 0, edit, text, manifest: editManifest, key }: Change = {},
): Promise<Buffer> {
  alice ??= readSubmission(ALICE)
  const { manifest, captures } = source ?? (await alice)
  const otherCluster = new OtherCluster(learner, rewritten, laterMs)
  const shiftMs = rewritten.includes('dates') ? laterMs : 0
  const moved = (date: string | number) =>
    new Date(new Date(date).getTime() + shiftMs).toISOString()
  const { captures: _described, ...about } = structuredClone(manifest)
  const made: Manifest = {
    ...about,
    captures: [],
    learner,
    seed: seedOf(learner),
    submittedAt: moved(about.submittedAt),
    steps: about.steps.map((step) =>
      step.passedAt ? { ...step, passedAt: moved(step.passedAt) } : step,
    ),
  }
  editManifest?.(made)
  const edited = [...captures].map(([id, { capture, takenAt }], index) => {
    const own = structuredClone(otherCluster.rewrite(capture))
    edit?.(own, id, index)
    return {
      id,
      takenAt: moved(takenAt),
      capture: text ? withTexts(own, (content, path) => text(content, path, id)) : own,
    }
  })
  const { captures: _none, schema: _schema, ...rest } = made
  return writeSubmission(rest, edited, key)
}

/** The same as a file, named for the learner unless told otherwise. */
export const changedFile = async (
  learner: string,
  change: Change = {},
  name = `${learner}-lab2.labgrade`,
) => fileOf(await changed(learner, change), name)
