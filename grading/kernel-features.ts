import type { KernelNeed } from '../cluster/doctor/kernel-probe.ts'
import { modeLacks } from '../cluster/kube-proxy/module-check.ts'
import type { KernelMode } from '../dataplane/kube-proxy/mode-ownership.ts'
import { reasonOf } from '../host/main.ts'
import type { CheckContext } from './check-context.ts'
import { OutOfReach, Trouble } from './failure.ts'
import type { LiveCluster } from './live-cluster.ts'
import { filesOf, type NodeView } from './snapshot.ts'

/**
 * What was found out about each cluster: a kernel's features do not change while a cluster runs.
 */
const known = new WeakMap<LiveCluster['cluster'], Map<string, string | undefined>>()

/** Asks once for each cluster. Throws Trouble if no node can be probed. */
async function askOnce(
  { cluster }: LiveCluster,
  subject: string,
  ask: () => Promise<string | undefined>,
): Promise<string | undefined> {
  const lacks = known.get(cluster) ?? new Map<string, string | undefined>()
  known.set(cluster, lacks)
  try {
    if (!lacks.has(subject)) lacks.set(subject, await ask())
    return lacks.get(subject)
  } catch (error) {
    throw new Trouble(`the nodes could not be probed for ${subject} (${reasonOf(error)})`)
  }
}

/**
 * The features of a mode that the nodes' kernel lacks, as a clause; undefined if none. Throws
 * Trouble if no node can be probed.
 */
export function missingKernelFeatures(
  live: LiveCluster,
  nodes: readonly NodeView[],
  mode: KernelMode,
): Promise<string | undefined> {
  const names = nodes.map(({ name }) => name)
  return askOnce(live, `mode ${mode}`, () => modeLacks(live.cluster, names, mode, 'rr'))
}

/**
 * The same from a thorough capture of each node (`kernel-modes`: "nftables: runs", "nftables: no
 * NAT in nf_tables"). `lacks` is undefined if the kernel has all features; the result is undefined
 * if the capture does not contain it.
 */
export function recordedLack(
  nodes: readonly NodeView[],
  mode: KernelMode,
): { lacks: string | undefined } | undefined {
  const recorded = nodes.map((node) => {
    const line = filesOf(node)
      .get('kernel-modes')
      ?.match(new RegExp(`^${mode}: (.+)$`, 'm'))?.[1]
    return { node: node.name, line }
  })
  const lacking = recorded.find(({ line }) => line?.startsWith('no '))
  if (lacking) return { lacks: `the kernel of ${lacking.node} has ${lacking.line}` }
  return recorded.length > 0 && recorded.every(({ line }) => line === 'runs')
    ? { lacks: undefined }
    : undefined
}

/** What a kernel lacks, for a learner who can't change it. */
interface KernelLack {
  /** What is not possible without it. */
  subject: string
  lacks: string
  /** The clusters that have it. */
  elsewhere: string
}

/**
 * Ends a check that needs features which the nodes' kernel does not have. A capture is judged by
 * its files unless it states that a feature is missing.
 * @throws OutOfReach with the reason, or Trouble if no node can be probed
 */
export async function requireKernel(
  needs: readonly KernelNeed[],
  context: CheckContext,
): Promise<void> {
  for (const need of needs) {
    const lack = need === 'nft' ? await lackOfNftables(context) : await lackOf(need, context)
    if (lack)
      throw new OutOfReach(`${lack.subject} can't run here: ${lack.lacks}; ${lack.elsewhere}`)
  }
}

/**
 * NAT in nf_tables is tested on every node with a table as kube-proxy writes it; the test adds
 * nothing.
 */
async function lackOfNftables({ live, nodes }: CheckContext): Promise<KernelLack | undefined> {
  const lacks = live
    ? await missingKernelFeatures(live, nodes, 'nftables')
    : recordedLack(nodes, 'nftables')?.lacks
  const elsewhere = 'a cluster with KERNEL=host, or kind, runs it'
  return lacks === undefined ? undefined : { subject: 'mode nftables', lacks, elsewhere }
}

/**
 * The other features are known of User-Mode Linux; on a context's nodes their modules are looked
 * for, and none is loaded.
 */
async function lackOf(
  need: Exclude<KernelNeed, 'nft'>,
  { live, nodes }: CheckContext,
): Promise<KernelLack | undefined> {
  const lacks = live
    ? await askOnce(live, need, () => lackOnCluster(live, need))
    : need === 'ipvs'
      ? recordedLack(nodes, 'ipvs')?.lacks
      : undefined
  const elsewhere = 'CLUSTER=embedded with KERNEL=uml runs it'
  return lacks === undefined ? undefined : { subject: 'this step', lacks, elsewhere }
}

async function lackOnCluster({ cluster }: LiveCluster, need: KernelNeed) {
  // The doctor's probes are loaded only for the few steps that need them.
  const { kernelLackOf } = await import('../cluster/doctor/gather.ts')
  const [lacking] = await kernelLackOf(cluster, [need])
  return lacking === undefined ? undefined : `the nodes' kernel has no ${lacking}`
}
