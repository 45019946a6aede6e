import type { NodeState } from '../node-state.ts'
import { ipBatchInput } from './restore/ip-batch.ts'
import { ipsetRestoreInput } from './restore/ipset-restore.ts'
import { iptablesRestoreInput } from './restore/iptables-restore.ts'
import { ipvsadmRestoreInput } from './restore/ipvsadm-restore.ts'

/** What to feed to a node, in this order, so that no rule ever names a missing set. Empty texts need no command. */
export interface Restore {
  /** `ip -batch -` */
  ipBatch: string
  /** `ipvsadm -R` */
  ipvsadmRestore: string
  /** `ipset restore -exist` */
  ipsetRestoreBefore: string
  /** `iptables-restore --noflush` (or ip6tables-restore, for a state of that family) */
  iptablesRestore: string
  /** `ipset restore -exist` */
  ipsetDestroyAfter: string
}

/**
 * The smallest change that takes what is kube-proxy's on a node from `present` to `target`: chains that are equal are
 * not rewritten (and keep their counters), what belongs to others is not mentioned.
 *
 * To act as a genuine kube-proxy does, which never cleans up after another mode, give applySwitch(present, prediction)
 * as the target; a bare prediction as the target also removes what another mode left, virtual servers made by hand
 * included.
 */
export function restoreNode(target: NodeState, present: NodeState): Restore {
  const ipsets = ipsetRestoreInput(target.ipsets, present.ipsets)
  return {
    ipBatch: ipBatchInput(target.links, present.links),
    ipvsadmRestore: ipvsadmRestoreInput(target.virtualServers, present.virtualServers),
    ipsetRestoreBefore: ipsets.before,
    iptablesRestore: iptablesRestoreInput(target.iptables, present.iptables),
    ipsetDestroyAfter: ipsets.after,
  }
}
