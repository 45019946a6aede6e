import { ModeUnsupported, requireModules } from '../../cluster/kube-proxy/module-check.ts'
import type { FlushedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { featuresOf, newestBefore, VersionError } from '../../dataplane/kube-proxy/versions.ts'
import type { CheckContext } from '../check-context.ts'
import { NotApplicable, Trouble } from '../failure.ts'
import type { LiveCluster } from '../live-cluster.ts'
import type { NodeView } from '../snapshot.ts'

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

/** Whether this kube-proxy has the mode without a gate. Throws Trouble for a version that is not modelled. */
export function hasNftables({ kubeProxyVersion: version }: NodeView): boolean {
  try {
    return newestBefore(version) !== undefined || featuresOf(version).nftables !== 'none'
  } catch (error) {
    if (error instanceof VersionError) throw new Trouble(error.message)
    throw error
  }
}

/** Throws NotApplicable, with the reason, where no kube-proxy of this cluster can run in mode nftables. */
export async function mustHaveNftables({ live, nodes }: CheckContext): Promise<void> {
  if (!live) return
  const lacks = await kernelLacks(live, nodes, 'nftables')
  if (lacks !== undefined) throw new NotApplicable(`mode nftables can't run here: ${lacks}; kind runs it`)
  const old = nodes.find((node) => !hasNftables(node))
  if (old)
    throw new NotApplicable(`kube-proxy ${old.kubeProxyVersion} has mode nftables not yet, or behind a gate only`)
}
