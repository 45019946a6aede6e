import { normaliseSpec, targetOf } from '../rule-text.ts'
import { misplaced, sameSequence } from './sequence.ts'

/**
 * kube-proxy puts each of its jumps on top of a chain, once, and never moves one. A jump that was there before it started
 * stands below the others: one that its other mode makes too, or the kubelet.
 */
const MAY_BE_OLDER = new Set(['KUBE-FORWARD', 'KUBE-FIREWALL'])

/** Agents that append their jump, so that what kube-proxy puts on top can't come to stand below it. */
const APPENDED = new Set(['KIND-MASQ-AGENT', 'IP-MASQ-AGENT'])

/**
 * The first jump of kube-proxy's that stands in a built-in chain where no kube-proxy puts it, or undefined. Rules of others
 * may stand anywhere between.
 * @param expected the jumps in predicted order
 * @param actual the same jumps in the order found
 * @param chain every rule of the chain found
 * @param untouched also hold the jumps' order among themselves against the prediction
 */
export function misplacedJump(
  expected: readonly string[],
  actual: readonly string[],
  chain: readonly string[],
  untouched: boolean,
): string | undefined {
  const agent = chain.findIndex((spec) => APPENDED.has(targetOf(spec) ?? ''))
  const below = agent === -1 ? undefined : chain.slice(agent).find((spec) => actual.includes(spec))
  if (below !== undefined || !untouched) return below
  const found = actual.map(normaliseSpec)
  let end = found.length
  while (end > 0 && MAY_BE_OLDER.has(targetOf(found[end - 1] ?? '') ?? '')) end--
  const older = new Set(found.slice(end))
  const wanted = expected.map(normaliseSpec).filter((spec) => !older.has(spec))
  const newer = found.slice(0, end)
  return sameSequence(wanted, newer) ? undefined : misplaced(wanted, newer)[0]
}
