import { createHash } from 'node:crypto'
import type { ApiObject } from '../api-object.ts'

/**
 * What tells one cluster from every other: a digest of the UIDs that its nodes and its first Service got when it was made.
 * Empty when the objects hold no UID.
 */
export function clusterIdentity(items: readonly ApiObject[]): string {
  const uids = items.filter(isFounding).flatMap(({ metadata }) => metadata.uid || [])
  if (uids.length === 0) return ''
  return createHash('sha256').update(uids.sort().join('\n')).digest('hex').slice(0, 16)
}

const isFounding = ({ kind, metadata }: ApiObject) =>
  kind === 'Node' || (kind === 'Service' && metadata.namespace === 'default' && metadata.name === 'kubernetes')
