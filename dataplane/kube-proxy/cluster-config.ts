import { canonicalCidr, commonBits, type Family, familyOf, parsePrefix } from '../ip-address.ts'
import type { NodeState } from '../node-state.ts'
import type { ClusterObjects } from '../objects.ts'
import { defaultConfig, type KubeProxyConfig, parseKubeProxyConfiguration } from './config.ts'

/**
 * The usual prefix length of a cluster's Pod range with a /24 (or /64) per node, as in the examples of kubeadm and kind.
 */
const USUAL_LENGTH: Record<Family, number> = { ipv4: 16, ipv6: 56 }

function covering(ranges: readonly string[], family: Family): string | undefined {
  const own = ranges.filter((range) => familyOf(range) === family)
  const [first] = own
  if (first === undefined) return undefined
  const networkOf = (range: string) => range.split('/')[0] ?? ''
  const shared = own.map((range) =>
    Math.min(parsePrefix(range)?.length ?? 0, commonBits(networkOf(first), networkOf(range))),
  )
  return canonicalCidr(`${networkOf(first)}/${Math.min(USUAL_LENGTH[family], ...shared)}`)
}

/**
 * The Pod range of the cluster, inferred from the nodes' ranges, as kubeadm would write it; empty if the nodes have
 * none.
 */
export function likelyClusterCIDR(objects: ClusterObjects): string {
  const ranges = objects.nodes.flatMap((node) => node.podCIDRs)
  const found = (['ipv4', 'ipv6'] as const).map((family) => covering(ranges, family))
  return found.filter((range) => range !== undefined).join(',')
}

/**
 * kube-proxy's configuration: from the ConfigMap if the objects contain it, else the defaults with the clusterCIDR
 * inferred from the nodes.
 * @throws ConfigError if the ConfigMap contains an invalid configuration
 */
export function clusterConfig(objects: ClusterObjects): KubeProxyConfig {
  const text = objects.kubeProxyConfigMap?.['config.conf']
  return text === undefined
    ? { ...defaultConfig(), clusterCIDR: likelyClusterCIDR(objects) }
    : parseKubeProxyConfiguration(text)
}

/**
 * Adds facts to a configuration that only the node's state shows: nfacct counters (used since 1.31 if the kernel
 * supports them), and in 1.20 the feature gate for dual stack, recognised by its sets.
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
