import { createHash } from 'node:crypto'
import type { Snapshot } from '../../grading/snapshot.ts'

/** Lab notes change whenever a lab is graded; EndpointSlices follow what happens to Pods. */
const isNotes = (kind: string, name: string) => kind === 'ConfigMap' && /^lab-\d+$/.test(name)

/**
 * A digest of everything through which a cluster can be repaired: what objects ask for, which Pods run, and when commands were
 * last run on the embedded cluster's nodes (embedded/apiserver/command-note.ts). While it is the same, nothing
 * has been repaired. Status is left out: it changes by itself.
 */
export function fingerprintOf({ items }: Snapshot): string {
  const facts = items
    .filter(({ kind, metadata }) => kind !== 'EndpointSlice' && !isNotes(kind, metadata.name))
    .map(({ kind, metadata, spec, data }) => {
      const { namespace = '', name, uid, labels, annotations, deletionTimestamp } = metadata
      return JSON.stringify([kind, namespace, name, uid, labels, annotations, deletionTimestamp, spec, data])
    })
  return createHash('sha256').update(facts.sort().join('\n')).digest('hex')
}
