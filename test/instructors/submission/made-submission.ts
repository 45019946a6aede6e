import { join } from 'node:path'
import { type ClassKey, seedOf } from '../../../grading/class-key.ts'
import { projectRoot } from '../../../host/layout.ts'
import type { Manifest } from '../../../instructors/submission/manifest.ts'
import { writeSubmission } from '../../../instructors/submission/pack.ts'
import { readSubmission, type Submission } from '../../../instructors/submission/read-submission.ts'
import { fileOf } from './tar-bytes.ts'

/** Lab 2 as solved on the embedded cluster and handed in, learner alice. */
export const ALICE = join(projectRoot, 'data/solved/lab-2-embedded.labgrade')

let alice: Promise<Submission> | undefined

export interface Change {
  /** Edits the description; `captures` is written again from the contents. */
  manifest?: (manifest: Manifest) => void
  /** Edits any file of any capture; `path` as in a capture folder. */
  text?: (text: string, path: string, capture: string) => string
  key?: ClassKey
}

/** The bytes of alice's submission after a change, in every other respect as `make submit` writes it. */
export async function changed(
  learner: string,
  { manifest: edit, text = (same) => same, key }: Change = {},
): Promise<Buffer> {
  alice ??= readSubmission(ALICE)
  const { manifest, captures } = await alice
  const { captures: _described, ...about } = structuredClone(manifest)
  const made: Manifest = { ...about, learner, seed: seedOf(learner), captures: [] }
  edit?.(made)
  const edited = [...captures].map(([id, { capture, takenAt }]) => ({
    id,
    takenAt: new Date(takenAt).toISOString(),
    capture: {
      ...capture,
      objects: JSON.parse(text(JSON.stringify(capture.objects, null, 1), 'objects.json', id)),
      nodes: capture.nodes.map(({ name, files }) => ({
        name,
        files: new Map([...files].map(([file, content]) => [file, text(content, `nodes/${name}/${file}`, id)])),
      })),
    },
  }))
  const { captures: _none, schema: _schema, ...rest } = made
  return writeSubmission(rest, edited, key)
}

/** The same as a file, named for the learner unless told otherwise. */
export const changedFile = async (learner: string, change: Change = {}, name = `${learner}-lab2.labgrade`) =>
  fileOf(await changed(learner, change), name)
