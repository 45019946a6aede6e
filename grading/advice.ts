import type { Difference } from '../dataplane/compare.ts'
import type { KubeProxyMode } from '../dataplane/kube-proxy/config.ts'
import { isEmptyFlush, planFlush } from '../dataplane/kube-proxy/flush.ts'
import { onNode } from './failure.ts'
import { modeOf, type NodeView, stateOf } from './snapshot.ts'

/** The advice for a difference: a sentence, and the next command. */
export interface Advice {
  hint: string
  next: string
}

/**
 * When kube-proxy writes what is missing. Its full sync is hourly in iptables and nftables mode
 * (FullSyncPeriod; syncPeriod sets retries and the check of the chain KUBE-PROXY-CANARY only). IPVS
 * mode writes everything every syncPeriod, but hourly in a few versions.
 */
const RESTORES: Partial<Record<KubeProxyMode, string>> = {
  ipvs: 'at its next periodic sync, after 30 seconds (in some versions of 1.34 and 1.35: after an hour)',
  nftables: 'only when what it belongs to changes, in its hourly full sync, or when it starts',
  iptables: 'only when what it belongs to changes, in its hourly full sync, or when it starts',
}

/**
 * Advice for missing state that kube-proxy of that mode restores periodically or at its restart.
 */
export function restoredBySync(mode: KubeProxyMode): Advice {
  return {
    hint: `kube-proxy corrects it ${RESTORES[mode] ?? 'when it starts'}. To correct it now, restart every kube-proxy:`,
    next: `make ${mode} FORCE=1`,
  }
}

/** Advice if kube-proxy runs in another mode than the step requires. */
export const otherMode = (node: string, runs: string, mode: KubeProxyMode): Advice => ({
  hint: `kube-proxy on ${node} runs in ${runs} mode, and this is about ${mode} mode:`,
  next: `make ${mode}`,
})

/** Advice for state of another mode than the one that runs. */
export const LEFT_BY_OTHER_MODE: Advice = {
  hint: 'It is of another mode, and stays until it is removed:',
  next: 'make flush-nat',
}

/**
 * Advice for the differences between a node and the prediction for a mode. It depends on the kinds
 * of difference, not on the step.
 */
export function adviceFor(
  node: NodeView,
  mode: KubeProxyMode,
  differences: readonly Difference[],
): Advice {
  const runs = modeOf(node)
  if (runs !== undefined && runs !== mode) return otherMode(node.name, runs, mode)
  const [first] = differences
  const interfering = differences.find(({ interferes }) => interferes)
  const removal = interfering && removalOf(node.name, interfering)
  if (removal) return removal
  if (
    differences.every((difference) => isOfOtherMode(difference, mode)) &&
    leftByOtherMode(node, mode)
  )
    return LEFT_BY_OTHER_MODE
  // syncService of kube-proxy updates the scheduler and persistence of a virtual server at each
  // sync, but syncEndpoint updates real servers only when it starts.
  if (first?.kind === 'wrong' && isOfRealServer(first) && mode === 'ipvs')
    return {
      hint: 'kube-proxy compares weights and methods of real servers only when it starts:',
      next: 'make ipvs FORCE=1',
    }
  return restoredBySync(mode)
}

/** A line of `ipvsadm -Sn` for a real server: `-a …`; that of its virtual server is `-A …`. */
const isOfRealServer = ({ where, expected }: Difference): boolean =>
  'virtualServer' in where && expected?.startsWith('-a ') === true

/**
 * Only IPVS mode has sets, virtual servers and addresses: what is too much of them there, a Service
 * or a person left.
 */
const isOfOtherMode = ({ kind, where }: Difference, mode: KubeProxyMode) =>
  kind === 'stale' && (mode !== 'ipvs' || 'chain' in where || 'nft' in where)

function leftByOtherMode(node: NodeView, mode: KubeProxyMode): boolean {
  if (mode !== 'ipvs' && mode !== 'iptables' && mode !== 'nftables') return false
  return !isEmptyFlush(planFlush(mode, stateOf(node)))
}

/** How to remove what is not kube-proxy's and affects packets to Services. */
function removalOf(node: string, { where }: Difference): Advice | undefined {
  if ('chain' in where)
    return {
      hint: `This rule is not kube-proxy's, which leaves it where it is. Find its number in the list, and delete it with -D ${where.chain} NUMBER:`,
      next: onNode(node, `iptables -t ${where.table} -nL ${where.chain} --line-numbers`),
    }
  if ('nft' in where) {
    const chain = where.part.replace(/^chain /, '')
    return {
      hint: `This rule is not kube-proxy's, which leaves it where it is. Find its handle in the list, and delete it with nft delete rule ${where.nft} ${chain} handle NUMBER:`,
      next: onNode(node, `nft -a list chain ${where.nft} ${chain}`),
    }
  }
  if ('link' in where)
    return {
      hint: 'No packet passes a link that is down:',
      next: onNode(node, `ip link set ${where.link} up`),
    }
  return undefined
}
