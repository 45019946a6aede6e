import { createHash } from 'node:crypto'
import type { NodeFiles } from '../../cluster/capture-folder.ts'
import { birthMarks, clusterIdentity } from '../submission/cluster-identity.ts'
import type { Submission } from '../submission/read-submission.ts'

/** What two submissions can only share when one was made from the other's cluster. Of bounded size. */
export interface Prints {
  /** Identities of the clusters that its captures show, from the objects themselves. */
  clusters: string[]
  /** Digests of UIDs of Pods and Services. */
  objects: string[]
  /** Digests of whole files that hold counters or resource versions, and so never repeat by chance. */
  files: string[]
}

/** So many of each are kept, the smallest digests, so that what two submissions share is kept of both. */
const KEPT = 32
const UNREPEATABLE = /^objects\.json$|\/(?:iptables-save|conntrack)$/
/** A file of a quiet node may be short enough to repeat. */
const TELLING_BYTES = 500

export function printsOf({ captures }: Submission): Prints {
  const clusters = new Set<string>()
  const objects = new Set<string>()
  const files = new Set<string>()
  const seen = new Set<unknown>()
  for (const { capture, digests } of captures.values()) {
    for (const [path, digest] of digests)
      if (UNREPEATABLE.test(path) && isTelling(path, capture.nodes)) files.add(digest.slice(0, 16))
    if (seen.has(capture.objects.items)) continue
    seen.add(capture.objects.items)
    const items = birthMarks(capture.objects.items)
    const identity = clusterIdentity(items)
    if (identity) clusters.add(identity)
    for (const { kind, uid } of items) if (uid && (kind === 'Pod' || kind === 'Service')) objects.add(uid)
  }
  const uids = new Set([...objects].map(digestOf))
  return { clusters: [...clusters].sort().slice(0, 8), objects: smallest(uids), files: smallest(files) }
}

function isTelling(path: string, nodes: readonly NodeFiles[]): boolean {
  if (path === 'objects.json') return true
  const [, node, file = ''] = path.split('/')
  return (nodes.find(({ name }) => name === node)?.files.get(file)?.length ?? 0) >= TELLING_BYTES
}

const smallest = (digests: ReadonlySet<string>) => [...digests].sort().slice(0, KEPT)
const digestOf = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16)
