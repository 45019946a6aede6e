import { createHash } from 'node:crypto'

/** The values that an API server assigns to an object at creation and at changes. */
export interface BirthMark {
  kind: string
  namespace: string
  name: string
  uid: string
  /** Milliseconds since the epoch; 0 if unknown. */
  createdAt: number
  resourceVersion: number
}

/** The marks of a list's objects; invalid items have none. */
export function birthMarks(items: readonly unknown[]): BirthMark[] {
  return items.flatMap((item) => (isRecord(item) && isRecord(item.metadata) ? markOf(item, item.metadata) : []))
}

function markOf(item: Record<string, unknown>, metadata: Record<string, unknown>): BirthMark {
  const { namespace, name, uid, creationTimestamp, resourceVersion } = metadata
  return {
    kind: text(item.kind),
    namespace: text(namespace),
    name: text(name),
    uid: text(uid),
    createdAt: Date.parse(text(creationTimestamp)) || 0,
    resourceVersion: Number(text(resourceVersion)) || 0,
  }
}

/**
 * The identity of a cluster: a digest of the UIDs of its nodes and its first Service. Empty if the objects
 * have no UID.
 */
export function clusterIdentity(marks: readonly BirthMark[]): string {
  const uids = marks.filter((mark) => mark.uid !== '' && isFounding(mark)).map(({ uid }) => uid)
  if (uids.length === 0) return ''
  return createHash('sha256').update(uids.sort().join('\n')).digest('hex').slice(0, 16)
}

const isFounding = ({ kind, namespace, name }: BirthMark) =>
  kind === 'Node' || (kind === 'Service' && namespace === 'default' && name === 'kubernetes')
const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
const text = (value: unknown) => (typeof value === 'string' ? value : '')
