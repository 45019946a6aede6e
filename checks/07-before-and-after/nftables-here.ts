import { ModeUnsupported, requireModules } from '../../cluster/kube-proxy/module-check.ts'
import type { FlushedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { featuresOf, newestBefore, VersionError } from '../../dataplane/kube-proxy/versions.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { OutOfReach, Trouble } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { NodeView } from '../../grading/snapshot.ts'

/** A kernel gains nothing while a cluster runs. */
const known = new WeakMap<LiveCluster['cluster'], Map<FlushedMode, Promise<string | undefined>>>()

/** What the nodes' kernel lacks for a mode, in a clause; undefined when it lacks nothing. Throws Trouble when no node can be asked. */
export function kernelLacks(
  live: LiveCluster,
  nodes: readonly NodeView[],
  mode: FlushedMode,
): Promise<string | undefined> {
  const answers = known.get(live.cluster) ?? new Map<FlushedMode, Promise<string | undefined>>()
  known.set(live.cluster, answers)
  const asked = answers.get(mode) ?? ask(live, nodes, mode)
  answers.set(mode, asked)
  // Only an answer is remembered: the next round may reach the nodes.
  asked.catch(() => answers.delete(mode))
  return asked
}

async function ask(live: LiveCluster, nodes: readonly NodeView[], mode: FlushedMode): Promise<string | undefined> {
  try {
    await requireModules(
      live.cluster,
      nodes.map(({ name }) => name),
      mode,
      'rr',
    )
    return undefined
  } catch (error) {
    if (error instanceof ModeUnsupported) return error.lacks
    throw new Trouble(
      `the nodes could not be asked for mode ${mode} (${error instanceof Error ? error.message : error})`,
    )
  }
}

/**
 * The same by what a thorough capture keeps of each node (`kernel-modes`: "nftables: runs", "nftables: no NAT in nf_tables"). `lacks` is
 * undefined where the kernel lacks nothing; the whole is, where the capture does not say.
 */
export function recordedLack(nodes: readonly NodeView[], mode: FlushedMode): { lacks: string | undefined } | undefined {
  const said = nodes.map((node) => {
    const line = node.text('kernel-modes')?.match(new RegExp(`^${mode}: (.+)$`, 'm'))?.[1]
    return { node: node.name, line }
  })
  const lacking = said.find(({ line }) => line?.startsWith('no '))
  if (lacking) return { lacks: `the kernel of ${lacking.node} has ${lacking.line}` }
  return said.length > 0 && said.every(({ line }) => line === 'runs') ? { lacks: undefined } : undefined
}

/** Whether this kube-proxy has the mode without a gate. Throws Trouble for a version that is not modelled. */
export function hasNftables({ kubeProxyVersion: version }: NodeView): boolean {
  try {
    return newestBefore(version) !== undefined || featuresOf(version).nftables === 'available'
  } catch (error) {
    if (error instanceof VersionError) throw new Trouble(error.message)
    throw error
  }
}

/** Throws NotApplicable, with the reason, where no kube-proxy of this cluster can run in mode nftables. */
export async function mustHaveNftables({ live, nodes }: CheckContext): Promise<void> {
  const lacks = live ? await kernelLacks(live, nodes, 'nftables') : recordedLack(nodes, 'nftables')?.lacks
  if (lacks !== undefined)
    throw new OutOfReach(`mode nftables can't run here: ${lacks}; a cluster with KERNEL=host, or kind, runs it`)
  const old = nodes.find((node) => !hasNftables(node))
  if (old) throw new OutOfReach(`kube-proxy ${old.kubeProxyVersion} has mode nftables not yet, or behind a gate only`)
}
