import { hash } from 'node:crypto'
import { birthMarks, clusterIdentity } from '../../grading/api-object.ts'
import { seedOf } from '../../grading/class-key.ts'
import { learnerIn } from '../../grading/variant.ts'
import type { Submission } from '../submission/read-submission.ts'
import { type DrawnKind, DrawnValueReader, type DrawnValues, LEAST_SHARED } from './drawn-values.ts'
import { listShared, publishedName, type Reuse } from './published.ts'
import type { Flag } from './result.ts'

/** Values that two submissions share only when one was made from the other's cluster. Of bounded size. */
export interface Prints {
  /** Identities of the clusters in its captures, derived from the objects. */
  clusters: string[]
  /** Digests of UIDs of Pods and Services. */
  objects: string[]
  /** Digests of whole files with counters or resource versions, which never repeat by chance. */
  files: string[]
  /** The learners whose variants are in its captures. */
  learners: string[]
  /** Digests of its cluster's random values, by kind; absent for a running cluster. */
  drawn?: Partial<Record<DrawnKind, string[]>>
}

/**
 * How many digests of each kind are kept: the smallest, so that two submissions keep the same ones of their shared values.
 */
const KEPT = 32
const UNREPEATABLE = /^objects\.json$|\/(?:iptables-save|conntrack)$/
/** A file of an idle node may be short enough to repeat. */
const LEAST_BYTES = 500

/** The random values of a submission's cluster, from the captures that were read. */
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
      if (UNREPEATABLE.test(path) && submitted.sizeOf(path) >= LEAST_BYTES) files.add(digest.slice(0, 16))
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

interface Compared {
  learner: string
  lab: number
  seed: string
  prints: Prints
  /** Values shared with a file that this repository publishes. */
  reuse?: Reuse | undefined
}

export interface CopyOptions {
  /** Each learner must have a variant of the labs; otherwise this is assumed if half of the other learners have theirs. */
  variants?: boolean | undefined
}

/** This many Pods or Services with the same UID prove a common cluster. */
const SHARED_OBJECTS = 2
/** This many identical node files prove a common source. */
const SHARED_FILES = 2
const NAMES_SHOWN = 3

/**
 * Compares every submission with those of all other learners; a learner's own labs and attempts may come from one cluster.
 * Returns the flags in the order given. Linear in the number of submissions.
 */
export function copyFlags(submissions: readonly Compared[], { variants = false }: CopyOptions = {}): Flag[][] {
  const clusters = holders(submissions, ({ clusters }) => clusters)
  const objects = holders(submissions, ({ objects }) => objects)
  const files = holders(submissions, ({ files }) => files)
  const drawn = holders(submissions, drawnOf)
  const dealt = new Map(submissions.map(({ learner, prints }) => [learner, hasOwnVariant(learner, prints)]))
  const withVariant = [...dealt.values()].filter((has) => has).length
  const learners = new Map(submissions.map(({ learner }) => [seedOf(learner), learner]))
  return submissions.map(({ learner, seed, prints, reuse }) => {
    const flags: Flag[] = []
    const flag = (kind: Flag['kind'], text: string) => flags.push({ kind, text })
    const same = ({ shared }: Reuse) => `${listShared(shared)} are the same.`
    if (reuse) flag('reused', `It looks reused from ${publishedName(reuse.source)}: ${same(reuse)}`)
    const sameCluster = others(prints.clusters, clusters, learner, 1)
    if (sameCluster.length > 0)
      flag('same cluster', `It was made on the same cluster as that of ${listed(sameCluster)}.`)
    const sameObjects = others(prints.objects, objects, learner, SHARED_OBJECTS).filter(
      (name) => !sameCluster.includes(name),
    )
    if (sameObjects.length > 0)
      flag('same objects', `Its Pods and Services have the same UIDs as those of ${listed(sameObjects)}.`)
    const sameFiles = others(prints.files, files, learner, SHARED_FILES)
    if (sameFiles.length > 0)
      flag(
        'same captures',
        `Some of its captures are identical to those of ${listed(sameFiles)}, including all counters.`,
      )
    const copied = mostShared(drawnOf(prints), drawn, learner, [...sameCluster, ...sameObjects])
    if (copied)
      flag('reused', `It looks reused from the submission of ${copied.source}, or that one from it: ${same(copied)}`)
    const owner = learners.get(seed)
    if (seed !== seedOf(learner))
      flag('seed', owner ? `Its seed is that of ${owner}.` : `Its seed is not that of ${learner}.`)
    const otherLearners = prints.learners.filter((name) => seedOf(name) !== seedOf(learner))
    if (otherLearners.length > 0) flag('seed', `Its cluster has the variant of ${listed(otherLearners)}.`)
    const unlike = withVariant > 0 ? `, unlike those of ${withVariant} others` : ''
    if (prints.learners.length === 0 && (variants || isMostly(withVariant, dealt.size - 1)))
      flag('variant', `Its cluster has no variant: it was used without LEARNER=${learner}${unlike}.`)
    return flags
  })
}

const isMostly = (count: number, all: number) => count > 0 && 2 * count >= all
const hasOwnVariant = (learner: string, { learners }: Prints) =>
  learners.some((name) => seedOf(name) === seedOf(learner))
const drawnOf = ({ drawn = {} }: Prints): string[] =>
  Object.entries(drawn).flatMap(([kind, digests]) => digests.map((digest) => `${kind} ${digest}`))

/** The learner with the most shared random values, if that can't be chance. */
function mostShared(
  values: readonly string[],
  found: ReadonlyMap<string, Set<string>>,
  self: string,
  reported: readonly string[],
): Reuse | undefined {
  const [most] = others(values, found, self, LEAST_SHARED).filter((name) => !reported.includes(name))
  if (most === undefined) return undefined
  const shared: Reuse['shared'] = {}
  for (const value of values)
    if (found.get(value)?.has(most)) {
      const kind = value.split(' ')[0] as DrawnKind
      shared[kind] = (shared[kind] ?? 0) + 1
    }
  return { source: most, shared }
}

/** Print → the learners who have it. */
function holders(submissions: readonly Compared[], select: (prints: Prints) => string[]): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>()
  for (const { learner, prints } of submissions)
    for (const print of select(prints)) {
      const names = found.get(print)
      if (names) names.add(learner)
      else found.set(print, new Set([learner]))
    }
  return found
}

/** Learners who share at least this many fingerprints. */
function others(
  prints: readonly string[],
  found: ReadonlyMap<string, Set<string>>,
  self: string,
  least: number,
): string[] {
  const shared = new Map<string, number>()
  for (const print of prints)
    for (const name of found.get(print) ?? []) if (name !== self) shared.set(name, (shared.get(name) ?? 0) + 1)
  return [...shared]
    .filter(([, count]) => count >= least)
    .sort(([, a], [, b]) => b - a)
    .map(([name]) => name)
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_SHOWN).join(', ')
  return names.length > NAMES_SHOWN ? `${shown} and ${names.length - NAMES_SHOWN} more` : shown
}
