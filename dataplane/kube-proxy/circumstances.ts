import type { NodeState } from '../node-state.ts'
import type { KubeProxyConfig } from './config.ts'

/**
 * Puts into a configuration what only the node can tell of the circumstances that its kube-proxy ran in: nfacct counters
 * (from 1.31 on written where the kernel has them), and in 1.20 the gate for both families, seen by its sets.
 */
export function withCircumstances(config: KubeProxyConfig, observed: NodeState): KubeProxyConfig {
  const counted = ['KUBE-FORWARD', 'KUBE-NODEPORTS'].some((chain) =>
    ['filter', 'nat'].some((table) =>
      observed.iptables
        .get(table)
        ?.get(chain)
        ?.rules.some((rule) => rule.spec.includes('--nfacct-name')),
    ),
  )
  const dualStack = [...observed.ipsets.keys()].some((name) => name.startsWith('KUBE-6-'))
  return { ...config, nfacct: config.nfacct || counted, dualStack: config.dualStack || dualStack }
}
