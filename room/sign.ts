// A failing step in a few words, alike for all learners who see the same:
// `3 stale chains on worker2`.

import { plainText, shortened } from '../host/plain-text.ts'
import type { FindingShown } from './protocol.ts'

const LONGEST = 70

/** The role of a node, without its cluster's name: `worker2` of `k8s-guide-worker2`. */
const roleOf = (node: string): string => /(?:control-plane|worker\d*)$/.exec(node)?.[0] ?? node

/** What differs between learners who see the same: names with a hash, addresses, UIDs. */
const OWN: readonly [RegExp, string][] = [
  [/\bKUBE-(SVC|SEP|SVL|EXT|FW|XLB)-[A-Z0-9]{16}\b/g, 'KUBE-$1-…'],
  [/\b[a-z0-9][a-z0-9-]*-(control-plane|worker\d*)\b/g, '$1'],
  [/\b10\.(?:96|244)\.\d{1,3}\.\d{1,3}\b/g, '10.…'],
]

/** The sign of a finding. */
export function signOf({ node, found }: FindingShown): string {
  const common = OWN.reduce((text, [own, all]) => text.replace(own, all), plainText(found))
  const line = shortened(common.replace(/\s+/g, ' ').trim(), LONGEST)
  return node === undefined || line.includes(roleOf(node)) ? line : `${line} on ${roleOf(node)}`
}
