import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { projectRoot } from '../../host/layout.ts'
import { DRAWN_KINDS, type DrawnKind, type DrawnValues, LEAST_SHARED } from './drawn-values.ts'

/** A published file or folder of this repository with values that a submission shares, and how many of each kind. */
export interface Reuse {
  source: string
  shared: Partial<Record<DrawnKind, number>>
}

/** Path in the repository → kind → digests, separated by a space. */
export type PublishedValues = Record<string, Partial<Record<DrawnKind, string>>>

export const PUBLISHED_FILE = join(projectRoot, 'instructors/class/published-values.json')

export function readPublishedValues(): PublishedValues {
  return JSON.parse(readFileSync(PUBLISHED_FILE, 'utf8'))
}

let index: Map<string, string[]> | undefined

/** The published source with the most shared values, if there are enough. */
export function reuseOfPublished(values: DrawnValues): Reuse | undefined {
  index ??= indexOf(readPublishedValues())
  const found = new Map<string, Reuse['shared']>()
  for (const [kind, digests] of values)
    for (const digest of digests)
      for (const source of index.get(`${kind} ${digest}`) ?? []) {
        const shared = found.get(source) ?? {}
        shared[kind] = (shared[kind] ?? 0) + 1
        found.set(source, shared)
      }
  const [most] = [...found]
    .map(([source, shared]): Reuse => ({ source, shared }))
    .filter(({ shared }) => countOf(shared) >= LEAST_SHARED)
    .sort((a, b) => countOf(b.shared) - countOf(a.shared) || (a.source < b.source ? -1 : 1))
  return most
}

function indexOf(published: PublishedValues): Map<string, string[]> {
  const sources = new Map<string, string[]>()
  for (const [source, kinds] of Object.entries(published))
    for (const [kind, digests] of Object.entries(kinds))
      for (const digest of digests.split(' ')) {
        const key = `${kind} ${digest}`
        const known = sources.get(key)
        if (known) known.push(source)
        else sources.set(key, [source])
      }
  return sources
}

/** The name of a source in reports. */
export function publishedName(source: string): string {
  const lab = /\/lab-(\d+)-[^/]*\.labgrade$/.exec(source)?.[1]
  return lab === undefined ? `the repository's recording "${source}"` : `the repository's solved example of lab ${lab}`
}

const countOf = (shared: Reuse['shared']): number => Object.values(shared).reduce((sum, count) => sum + count, 0)

/** "14 MAC addresses, 6 veth names": what is shared, in the order of the kinds. */
export const listShared = (shared: Reuse['shared']): string =>
  Object.entries(DRAWN_KINDS)
    .flatMap(([kind, words]) => {
      const count = shared[kind as DrawnKind] ?? 0
      return count > 0 ? [`${count} ${words}`] : []
    })
    .join(', ')
