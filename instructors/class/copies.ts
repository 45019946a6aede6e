import { seedOf } from '../../grading/learner.ts'
import { type DrawnKind, TELLING } from './drawn-values.ts'
import type { Prints } from './prints.ts'
import { listShared, publishedName, type Reuse } from './published.ts'
import type { Flag } from './result.ts'

export interface Compared {
  learner: string
  lab: number
  seed: string
  prints: Prints
  /** What it has in common with something that this repository publishes. */
  reuse?: Reuse | undefined
}

export interface CopyOptions {
  /** Each learner was dealt a variant of the labs; otherwise that is assumed where half of the other learners have theirs. */
  variants?: boolean | undefined
}

/** This many Pods or Services with the same UID prove a common cluster. */
const SHARED_OBJECTS = 2
/** This many node files equal to the last counter prove a common source. */
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
    if (reuse)
      flags.push({
        kind: 'reused',
        text: `It looks reused from ${publishedName(reuse.source)}: ${listShared(reuse.shared)} are the same.`,
      })
    const sameCluster = others(prints.clusters, clusters, learner, 1)
    if (sameCluster.length > 0)
      flags.push({ kind: 'same cluster', text: `It was made on the very cluster of ${listed(sameCluster)}.` })
    const sameObjects = others(prints.objects, objects, learner, SHARED_OBJECTS).filter(
      (name) => !sameCluster.includes(name),
    )
    if (sameObjects.length > 0)
      flags.push({
        kind: 'same objects',
        text: `Its Pods and Services have the UIDs of those of ${listed(sameObjects)}.`,
      })
    const sameFiles = others(prints.files, files, learner, SHARED_FILES)
    if (sameFiles.length > 0)
      flags.push({
        kind: 'same captures',
        text: `Some of its captures are those of ${listed(sameFiles)}, to the last counter.`,
      })
    const copied = mostShared(drawnOf(prints), drawn, learner, [...sameCluster, ...sameObjects])
    if (copied)
      flags.push({
        kind: 'reused',
        text: `It looks reused from the submission of ${copied.name}, or that one from it: ${listShared(copied.shared)} are the same.`,
      })
    if (seed !== seedOf(learner)) {
      const owner = learners.get(seed)
      flags.push({
        kind: 'seed',
        text: owner ? `Its seed is that of ${owner}.` : `Its seed is not that of ${learner}.`,
      })
    }
    const strangers = prints.learners.filter((name) => seedOf(name) !== seedOf(learner))
    if (strangers.length > 0)
      flags.push({ kind: 'seed', text: `Its cluster was dealt the variant of ${listed(strangers)}.` })
    if (prints.learners.length === 0 && (variants || isMostly(withVariant, dealt.size - 1)))
      flags.push({
        kind: 'variant',
        text: `Its cluster was dealt no variant: it was worked on without LEARNER=${learner}${withVariant > 0 ? `, unlike those of ${withVariant} others` : ''}.`,
      })
    return flags
  })
}

const isMostly = (count: number, all: number) => count > 0 && 2 * count >= all
const hasOwnVariant = (learner: string, { learners }: Prints) =>
  learners.some((name) => seedOf(name) === seedOf(learner))
const drawnOf = ({ drawn = {} }: Prints): string[] =>
  Object.entries(drawn).flatMap(([kind, digests]) => digests.map((digest) => `${kind} ${digest}`))

/** The learner with whom the most drawn values are shared, where that can't be chance. */
function mostShared(
  values: readonly string[],
  found: ReadonlyMap<string, Set<string>>,
  self: string,
  told: readonly string[],
): { name: string; shared: Reuse['shared'] } | undefined {
  const [most] = others(values, found, self, TELLING).filter((name) => !told.includes(name))
  if (most === undefined) return undefined
  const shared: Reuse['shared'] = {}
  for (const value of values)
    if (found.get(value)?.has(most)) {
      const kind = value.split(' ')[0] as DrawnKind
      shared[kind] = (shared[kind] ?? 0) + 1
    }
  return { name: most, shared }
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
