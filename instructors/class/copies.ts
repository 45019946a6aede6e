import { groupBy } from '../../dataplane/collections.ts'
import { birthMarks, clusterIdentity } from '../../grading/api-object.ts'
import { seedOf } from '../../grading/class-key.ts'
import { learnerIn } from '../../grading/variant.ts'
import type { SubmittedCapture } from '../submission/read-submission.ts'
import type { Flag, Graded } from './result.ts'

/**
 * Values that two submissions share only when one was made from the other's cluster. Of bounded
 * size.
 */
export interface Prints {
  /** Identities of the clusters in its captures, derived from the objects. */
  clusters: string[]
  /** Digests of whole files with counters, which never repeat by chance. */
  files: string[]
  /** The learners whose variants are in its captures. */
  learners: string[]
}

/**
 * How many values of each kind are kept: the smallest, so that two submissions keep the same ones
 * of their shared values.
 */
const KEPT = 32
/** Node files with counters. That of an idle node may be short enough to repeat. */
const UNREPEATABLE = ['iptables-save', 'conntrack']
const LEAST_BYTES = 500

/** What the captures of a submission, or of a running cluster, are compared by. */
export function printsOf(
  submitted: Iterable<Pick<SubmittedCapture, 'capture' | 'digests'>>,
): Prints {
  const clusters = new Set<string>()
  const files = new Set<string>()
  const learners = new Set<string>()
  for (const { capture, digests } of submitted) {
    const { items } = capture.objects
    clusters.add(clusterIdentity(birthMarks(items)))
    learners.add(learnerIn(items) ?? '')
    for (const node of capture.nodes)
      for (const file of UNREPEATABLE)
        if ((node.files.get(file) ?? '').length >= LEAST_BYTES)
          files.add(digests.get(`nodes/${node.name}/${file}`)?.slice(0, 16) ?? '')
  }
  return {
    clusters: smallest(clusters, 8),
    files: smallest(files),
    learners: smallest(learners, 8),
  }
}

const smallest = (values: Iterable<string>, most = KEPT) =>
  [...values].filter(Boolean).sort().slice(0, most)

/** A graded submission or cluster with what it is compared by. */
export interface Compared {
  graded: Graded
  /** The seed that its learner's variant was derived from. */
  seed: string
  prints: Prints
}

export interface CopyOptions {
  /**
   * Each learner must have a variant of the labs; otherwise this is assumed if half of the other
   * learners have theirs.
   */
  variants?: boolean | undefined
}

/** This many identical node files prove a common source. */
const SHARED_FILES = 2
const NAMES_SHOWN = 3

/** One learner, however the name is capitalized: they have the same seed. */
const isSame = (one: string, other: string) => one.toLowerCase() === other.toLowerCase()

/**
 * Compares every submission with those of all other learners; a learner's own labs and attempts may
 * come from one cluster. Returns the flags in the order given. Linear in the number of submissions.
 */
export function copyFlags(
  submissions: readonly Compared[],
  { variants = false }: CopyOptions = {},
): Flag[][] {
  const comparison = (select: (prints: Prints) => readonly string[], least: number) => {
    const index = new SourceIndex()
    for (const { graded, prints } of submissions) index.add(graded.learner, select(prints))
    return (learner: string, prints: Prints) =>
      index.sharing(select(prints), least).filter((source) => !isSame(source, learner))
  }
  const withSameCluster = comparison(({ clusters }) => clusters, 1)
  const withSameFiles = comparison(({ files }) => files, SHARED_FILES)
  const dealt = new Map<string, boolean>()
  for (const { graded, prints } of submissions) {
    const learner = graded.learner.toLowerCase()
    dealt.set(learner, dealt.get(learner) || hasOwnVariant(graded.learner, prints))
  }
  const withVariant = [...dealt.values()].filter((has) => has).length
  const learners = new Map(submissions.map(({ graded: { learner } }) => [seedOf(learner), learner]))
  const needsVariant = variants || isMostly(withVariant, dealt.size - 1)
  return submissions.map(({ graded: { learner }, seed, prints }) => {
    const flags = sourceFlags(withSameCluster(learner, prints), withSameFiles(learner, prints))
    if (seed !== seedOf(learner)) flags.push(seedFlag(learner, learners.get(seed)))
    const otherLearners = prints.learners.filter((name) => !isSame(name, learner))
    if (otherLearners.length > 0)
      flags.push({ kind: 'seed', text: `Its cluster has the variant of ${listed(otherLearners)}.` })
    if (prints.learners.length === 0 && needsVariant) flags.push(variantFlag(learner, withVariant))
    return flags
  })
}

/** The flags of a submission that has the cluster, or the node files, of these other learners. */
function sourceFlags(sameCluster: readonly string[], sameFiles: readonly string[]): Flag[] {
  const flags: Flag[] = []
  if (sameCluster.length > 0)
    flags.push({
      kind: 'same cluster',
      text: `It was made on the same cluster as that of ${listed(sameCluster)}.`,
    })
  if (sameFiles.length > 0)
    flags.push({
      kind: 'same captures',
      text:
        `Some of its captures are identical to those of ${listed(sameFiles)}, ` +
        'including all counters.',
    })
  return flags
}

const seedFlag = (learner: string, owner: string | undefined): Flag => ({
  kind: 'seed',
  text: owner ? `Its seed is that of ${owner}.` : `Its seed is not that of ${learner}.`,
})

function variantFlag(learner: string, withVariant: number): Flag {
  const unlike = withVariant > 0 ? `, unlike those of ${withVariant} others` : ''
  const text = `Its cluster has no variant: it was used without LEARNER=${learner}${unlike}.`
  return { kind: 'variant', text }
}

const isMostly = (count: number, all: number) => count > 0 && 2 * count >= all
const hasOwnVariant = (learner: string, { learners }: Prints) =>
  learners.some((name) => isSame(name, learner))

/** Finds the sources of values. */
class SourceIndex {
  readonly #sources = new Map<string, Set<string>>()

  add(source: string, values: Iterable<string>): void {
    for (const value of values)
      this.#sources.set(value, (this.#sources.get(value) ?? new Set()).add(source))
  }

  /** The sources of at least this many of the values, the one with most first. */
  sharing(values: Iterable<string>, least: number): string[] {
    const found = [...values].flatMap((value) => [...(this.#sources.get(value) ?? [])])
    return [...groupBy(found, (source) => source)]
      .filter(([, own]) => own.length >= least)
      .sort(([, own], [, other]) => other.length - own.length)
      .map(([source]) => source)
  }
}

/** The first names, and how many more there are. */
export function listed(names: readonly string[], most = NAMES_SHOWN): string {
  const shown = names.slice(0, most).join(', ')
  return names.length > most ? `${shown} and ${names.length - most} more` : shown
}
