import { birthMarks } from '../../grading/cluster-identity.ts'
import type { Submission } from '../submission/read-submission.ts'
import type { Flag } from './result.ts'

/** Allowed difference between the clocks of one machine and its cluster, and of different machines. */
const SKEW_MS = 10_000
const FUTURE_MS = 15 * 60_000

/** Dates of one submission that can't all be true. At most one flag of each kind: the first that is found. */
export function clockFlags({ manifest, captures }: Submission, now: number): Flag[] {
  const submittedAt = Date.parse(manifest.submittedAt)
  const ordered = [...captures].toSorted(([, a], [, b]) => a.takenAt - b.takenAt)
  const found = new Map<string, string>()
  const say = (kind: string, text: string) => found.has(kind) || found.set(kind, text)
  if (submittedAt > now + FUTURE_MS) say('future', `It is dated ${manifest.submittedAt}, which is in the future.`)
  let version = 0
  let before = ''
  for (const [id, submitted] of ordered) {
    const { takenAt } = submitted
    if (takenAt > submittedAt + SKEW_MS) say('late', `The capture "${id}" is dated after the submission itself.`)
    if (!submitted.wasRead) continue
    let newest = 0
    let highest = 0
    for (const { createdAt, resourceVersion } of birthMarks(submitted.capture.objects.items)) {
      newest = Math.max(newest, createdAt)
      highest = Math.max(highest, resourceVersion)
    }
    if (newest > takenAt + SKEW_MS) say('early', `The capture "${id}" is dated before objects in it were made.`)
    // An API server counts its changes: a later look can't have seen fewer of them than an earlier one by much.
    if (highest < version * 0.5)
      say('order', `The capture "${id}" is dated after "${before}", but its cluster had seen fewer changes by then.`)
    if (highest > version) {
      version = highest
      before = id
    }
  }
  return [...found.values()].map((text) => ({ kind: 'clock', text }))
}
