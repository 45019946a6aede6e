import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { seedOf } from '../../checks/submission/learner.ts'
import { readSubmission } from '../../checks/submission/read-submission.ts'
import { writeSubmission } from '../../checks/submission/write-submission.ts'
import type { Capture } from '../../cluster/capture-folder.ts'

const UID = /[0-9a-f]{8}(?=-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/g

/**
 * A class of so many learners, each with a submission that no other's shares a UID or a counter with, made from a recorded
 * one. Returns the files, in a new temporary folder.
 */
export async function makeClass(recorded: string, count: number): Promise<{ folder: string; files: string[] }> {
  const { manifest, captures } = await readSubmission(recorded)
  const folder = mkdtempSync(join(tmpdir(), 'class-'))
  const files: string[] = []
  for (let index = 1; index <= count; index++) {
    const learner = `learner${String(index).padStart(4, '0')}`
    const { schema: _schema, captures: _captures, ...about } = manifest
    const own = [...captures].map(([id, { capture, takenAt }]) => ({
      id,
      takenAt: new Date(takenAt).toISOString(),
      capture: asOwn(capture, learner),
    }))
    const file = join(folder, `${learner}-lab${manifest.lab}.labgrade`)
    writeFileSync(file, writeSubmission({ ...about, learner, seed: seedOf(learner) }, own))
    files.push(file)
  }
  return { folder, files }
}

function asOwn(capture: Capture, learner: string): Capture {
  const key = Number.parseInt(seedOf(learner).slice(0, 8), 16)
  const text = JSON.stringify(capture.objects).replace(UID, (part) =>
    ((Number.parseInt(part, 16) ^ key) >>> 0).toString(16).padStart(8, '0'),
  )
  const nodes = capture.nodes.map(({ name, files }) => ({
    name,
    files: new Map(
      [...files].map(([file, content]) => [
        file,
        /iptables-save|conntrack/.test(file) ? `${content}# ${learner}\n` : content,
      ]),
    ),
  }))
  return { objects: JSON.parse(text), nodes }
}
