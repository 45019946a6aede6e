import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Capture } from '../cluster/capture-folder.ts'
import { seedOf } from '../grading/learner.ts'
import { readSubmission, type Submission } from '../instructors/submission/read-submission.ts'
import { writeSubmission } from '../instructors/submission/write-submission.ts'
import { EVERYTHING, OtherCluster } from './other-cluster.ts'

const DRAWN = /\b10\.96\.\d+\.\d+\b/g
/** The range itself; and those of the API server and of DNS, which are the same in every cluster. */
const GIVEN = ['10.96.0.0', '10.96.0.1', '10.96.0.10']
/** Learners hand in one after the other, so far apart. */
const APART_MS = 97_000

/**
 * A class of this many learners, each with a submission that shares nothing drawn, no date and no ClusterIP with another's, made
 * from recorded ones in turn. Returns the files, in a new temporary folder.
 */
export async function makeClass(
  recorded: readonly string[],
  count: number,
): Promise<{ folder: string; files: string[] }> {
  const originals = await Promise.all(recorded.map((file) => readSubmission(file)))
  const folder = mkdtempSync(join(tmpdir(), 'class-'))
  const files: string[] = []
  for (let index = 1; index <= count; index++) {
    const original = originals[index % originals.length]
    if (!original) break
    const learner = `learner${String(index).padStart(4, '0')}`
    const { file, bytes } = ownSubmission(original, learner, index * APART_MS)
    files.push(join(folder, file))
    writeFileSync(join(folder, file), bytes)
  }
  return { folder, files }
}

function ownSubmission({ manifest, captures }: Submission, learner: string, earlierMs: number) {
  const { schema: _schema, captures: _captures, steps, submittedAt, ...about } = manifest
  const key = Number.parseInt(seedOf(learner).slice(0, 8), 16)
  const others = [...captures.values()].map(({ capture }) => capture)
  const other = new OtherCluster(others, learner, EVERYTHING, -earlierMs)
  const own = [...captures].map(([id, { capture, takenAt }]) => ({
    id,
    takenAt: other.date(new Date(takenAt).toISOString()),
    capture: withOwnAddresses(other.rewrite(capture), key),
  }))
  const passed = steps.map((step) => (step.passedAt ? { ...step, passedAt: other.date(step.passedAt) } : step))
  const described = { ...about, learner, seed: seedOf(learner), submittedAt: other.date(submittedAt), steps: passed }
  return { file: `${learner}-lab${manifest.lab}.labgrade`, bytes: writeSubmission(described, own) }
}

function withOwnAddresses(capture: Capture, key: number): Capture {
  const objects = JSON.stringify(capture.objects)
  const drawn = drawnAddresses(objects, key)
  const own = (text: string) => text.replace(DRAWN, (address) => drawn.get(address) ?? address)
  const nodes = capture.nodes.map(({ name, files }) => ({
    name,
    files: new Map([...files].map(([file, content]) => [file, own(content)])),
  }))
  return { objects: JSON.parse(own(objects)), nodes }
}

/** ClusterIPs that were drawn by chance, and those that another cluster drew in their place. */
function drawnAddresses(objects: string, key: number): Map<string, string> {
  const drawn = [...new Set(objects.match(DRAWN))].filter((address) => !GIVEN.includes(address))
  const thirds = drawn.map((address) => Number(address.split('.')[2]))
  const other = [...Array(255).keys()].map((step) => 1 + ((key + step) % 255)).find((one) => !thirds.includes(one)) ?? 1
  return new Map(
    drawn.map((address, index) => [
      address,
      address.replace(/(?<=^\d+\.\d+\.)\d+/, String((thirds[index] ?? 0) ^ other)),
    ]),
  )
}
