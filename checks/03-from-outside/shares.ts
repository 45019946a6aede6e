import { z } from 'zod'
import type { Snapshot } from '../../grading/snapshot.ts'
import type { WebBackend, WebService } from '../../grading/web-service.ts'

/** What one Pod got of a number of requests. */
const podShareSchema = z.object({ pod: z.string(), node: z.string(), requests: z.number().int().nonnegative() })
const sharesSchema = z.array(podShareSchema).min(1)

export type PodShare = z.infer<typeof podShareSchema>

/** True for shares that were read back from the cluster. */
export const isShares = (value: unknown): value is PodShare[] => sharesSchema.safeParse(value).success

const EXCLUDED = 'node.kubernetes.io/exclude-from-external-load-balancers'
/** Standard deviations that a share measured may lie from the one expected: more than five happen once in a million times. */
const TOLERANCE = 5

/** How many Pods of web each node has that a load balancer sends to. */
export function podsByNode({ objects }: Snapshot, { backends }: WebService): Map<string, number> {
  const excluded = new Set(objects.nodes.filter(({ labels }) => EXCLUDED in labels).map(({ name }) => name))
  const counts = new Map<string, number>()
  for (const { node } of backends) if (!excluded.has(node)) counts.set(node, (counts.get(node) ?? 0) + 1)
  return counts
}

/**
 * The part of all requests that a Pod on a node can expect under externalTrafficPolicy Local: the load balancer spreads over nodes,
 * each node over its own Pods.
 */
export function expectedShare(pods: ReadonlyMap<string, number>, node: string): number {
  const neighbours = pods.get(node)
  return neighbours === undefined ? 0 : 1 / pods.size / neighbours
}

/** True when a count is what chance makes of a share. */
export function isLikely(requests: number, total: number, share: number): boolean {
  return Math.abs(requests - total * share) <= TOLERANCE * Math.sqrt(total * share * (1 - share))
}

/** Some node has more Pods than another one. */
export const isUneven = (counts: readonly number[]): boolean => Math.max(...counts) !== Math.min(...counts)

/** Counts who answered, Pods that answered nothing included; those of one node stand together. */
export function countShares(backends: readonly WebBackend[], answered: readonly WebBackend[]): PodShare[] {
  return backends
    .map(({ pod, node }) => ({ pod, node, requests: answered.filter((one) => one.pod === pod).length }))
    .sort((a, b) => (a.node === b.node ? b.requests - a.requests : a.node < b.node ? -1 : 1))
}

export const totalOf = (shares: readonly PodShare[]): number => shares.reduce((sum, { requests }) => sum + requests, 0)

/** `8 % to 51 %` */
export function spanOf(shares: readonly PodShare[]): string {
  const total = totalOf(shares)
  const parts = shares.map(({ requests }) => Math.round((requests / total) * 100))
  return `${Math.min(...parts)} % to ${Math.max(...parts)} %`
}
