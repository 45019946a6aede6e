import { misplaced, sameSequence } from '../collections.ts'
import { entryName } from '../entry-id.ts'
import { type Entry, type NodeHoldings, placedEntries } from './holdings.ts'

/**
 * One entry of one node that was added, removed, changed its text or moved within its chain.
 * Counters are no change.
 */
export interface Change {
  node: string
  /** The id of the entry (holdings.ts), or `kube-proxy` for a change of its mode. */
  id: string
  /** Where it is, for people: `nat KUBE-SERVICES`, `set KUBE-CLUSTER-IP`, `IPVS`. */
  place: string
  change: 'added' | 'removed' | 'changed' | 'moved'
  text: string
  /** The text before, of a changed entry. */
  before?: string
}

/**
 * What changed on a node, in the order of the tree, what was removed last. A node that was not read
 * has no changes.
 */
export function changesBetween(before: NodeHoldings, after: NodeHoldings): Change[] {
  const { node } = after
  if (before.trouble !== undefined || after.trouble !== undefined) return []
  const [was, is] = [entriesById(before), entriesById(after)]
  const changes = changesOfMode(before, after)
  for (const [id, { place, text, entry }] of is) {
    const old = was.get(id)
    if (!old) {
      changes.push({ node, id, place, change: 'added', text })
      continue
    }
    if (old.text !== text)
      changes.push({ node, id, place, change: 'changed', text, before: old.text })
    if (entry.kind !== 'chain') continue
    for (const moved of movedRules(old.entry, entry)) {
      const { place, text } = is.get(moved) as Placed
      changes.push({ node, id: moved, place, change: 'moved', text })
    }
  }
  for (const [id, { place, text }] of was)
    if (!is.has(id)) changes.push({ node, id, place, change: 'removed', text })
  return changes
}

/** The change of kube-proxy's mode, if it is known now. */
function changesOfMode(before: NodeHoldings, after: NodeHoldings): Change[] {
  if (after.mode === undefined || before.mode === after.mode) return []
  const id = 'kube-proxy'
  const mode = { node: after.node, id, place: id, text: `mode ${after.mode}` }
  return before.mode === undefined
    ? [{ ...mode, change: 'added' }]
    : [{ ...mode, change: 'changed', before: `mode ${before.mode}` }]
}

/** The same for all nodes; one that was not there before has no changes. */
export const changesOnNodes = (
  before: readonly NodeHoldings[] = [],
  after: readonly NodeHoldings[] = [],
): Change[] =>
  after.flatMap((now) => {
    const old = before.find(({ node }) => node === now.node)
    return old ? changesBetween(old, now) : []
  })

function movedRules(before: Entry, after: Entry): string[] {
  const ids = ({ children = [] }: Entry) => children.map(({ id }) => id)
  const [was, is] = [ids(before), ids(after)]
  if (sameSequence(was, is)) return []
  const [old, now] = [new Set(was), new Set(is)]
  return misplaced(
    was.filter((id) => now.has(id)),
    is.filter((id) => old.has(id)),
  )
}

interface Placed {
  entry: Entry
  place: string
  text: string
}

/** Every entry but the groups. */
function entriesById({ groups }: NodeHoldings): Map<string, Placed> {
  const entries = new Map<string, Placed>()
  for (const { entry, parents } of placedEntries(groups)) {
    const parent = parents.at(-1)
    const text =
      entry.kind === 'real server' && parent ? `${entryName(parent.id)} ${entry.text}` : entry.text
    if (parent) entries.set(entry.id, { entry, place: placeIn(parents), text })
  }
  return entries
}

function placeIn(parents: readonly Entry[]): string {
  const [group = '', name = '', inner] = parents.map(({ id }) => entryName(id))
  if (group === 'ipvs') return 'IPVS'
  if (name === '') return group
  if (group === 'ipset') return `set ${name}`
  if (group === 'links') return `addresses of ${name}`
  return inner === undefined ? name : `${name} ${inner}`
}

/** What the nodes held at one time, and what changed since the moment before. */
export interface TimelinePoint {
  /** Counts from 0, and stays the same when earlier moments are no longer kept. */
  number: number
  at: number
  /** What it is known by. */
  label: string
  nodes: NodeHoldings[]
  changes: Change[]
}

/** The moments that are kept. */
const MOMENTS = 100

/**
 * The moments with what the nodes hold now: a further one if something changed, else the latest one
 * with new counters. Of a node that could not be read it keeps what was last known, with the
 * reason.
 */
export function addMoment(
  moments: readonly TimelinePoint[],
  at: number,
  read: readonly NodeHoldings[],
): TimelinePoint[] {
  const latest = moments.at(-1)
  const lastKnown = (node: string) => latest?.nodes.find((one) => one.node === node)
  const nodes = read.map((one) => {
    const known = one.trouble === undefined ? undefined : lastKnown(one.node)
    return known ? { ...known, trouble: one.trouble as string } : one
  })
  const changes = nodes.flatMap((one) => {
    const { trouble: _, ...known } = lastKnown(one.node) ?? one
    return changesBetween(known, one)
  })
  if (latest && changes.length === 0) return [...moments.slice(0, -1), { ...latest, nodes }]
  const number = latest ? latest.number + 1 : 0
  return [...moments, { number, at, label: '', nodes, changes }].slice(-MOMENTS)
}
