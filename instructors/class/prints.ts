import { hash } from 'node:crypto'
import { birthMarks, clusterIdentity } from '../../grading/cluster-identity.ts'
import { learnerIn } from '../../grading/variant.ts'
import type { Submission } from '../submission/read-submission.ts'
import { type DrawnKind, DrawnValueReader, type DrawnValues } from './drawn-values.ts'

/** What two submissions can only share when one was made from the other's cluster. Of bounded size. */
export interface Prints {
  /** Identities of the clusters that its captures show, from the objects themselves. */
  clusters: string[]
  /** Digests of UIDs of Pods and Services. */
  objects: string[]
  /** Digests of whole files that hold counters or resource versions, and so never repeat by chance. */
  files: string[]
  /** Learners whose variants its captures show. */
  learners: string[]
  /** Digests of what its cluster drew at random, by kind; absent for a running cluster. */
  drawn?: Partial<Record<DrawnKind, string[]>>
}

/** This many of each kind are kept, the smallest digests, so that two submissions keep the same ones of those they share. */
const KEPT = 32
const UNREPEATABLE = /^objects\.json$|\/(?:iptables-save|conntrack)$/
/** A file of a quiet node may be short enough to repeat. */
const TELLING_BYTES = 500

/** What the cluster of a submission drew at random, from the captures that were read. */
export function valuesOfSubmission({ captures }: Pick<Submission, 'captures'>): DrawnValues {
  const reader = new DrawnValueReader()
  for (const submitted of captures.values())
    if (submitted.wasRead) reader.addCapture(submitted.capture, (path) => `${path} ${submitted.digests.get(path)}`)
  return reader.values
}

export function printsOf({ captures }: Submission, drawn: DrawnValues): Prints {
  const clusters = new Set<string>()
  const objects = new Set<string>()
  const files = new Set<string>()
  const learners = new Set<string>()
  for (const submitted of captures.values()) {
    for (const [path, digest] of submitted.digests)
      if (UNREPEATABLE.test(path) && submitted.sizeOf(path) >= TELLING_BYTES) files.add(digest.slice(0, 16))
    if (!submitted.wasRead) continue
    const learner = learnerIn(submitted.capture.objects.items)
    if (learner) learners.add(learner)
    const marks = birthMarks(submitted.capture.objects.items)
    const identity = clusterIdentity(marks)
    if (identity) clusters.add(identity)
    for (const { kind, uid } of marks) if (uid && (kind === 'Pod' || kind === 'Service')) objects.add(uid)
  }
  const uids = new Set([...objects].map(digestOf))
  return {
    clusters: [...clusters].sort().slice(0, 8),
    objects: smallest(uids),
    files: smallest(files),
    learners: [...learners].sort().slice(0, 8),
    drawn: Object.fromEntries([...drawn].map(([kind, digests]) => [kind, smallest(digests)])),
  }
}

const smallest = (digests: ReadonlySet<string>) => [...digests].sort().slice(0, KEPT)
const digestOf = (text: string) => hash('sha256', text).slice(0, 16)
