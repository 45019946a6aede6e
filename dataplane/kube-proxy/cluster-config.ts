import ipaddr from 'ipaddr.js'
import { canonicalCidr, type Family, familyOf } from '../ip-address.ts'
import type { NodeState } from '../node-state.ts'
import type { ClusterObjects } from '../objects.ts'
import { defaultConfig, type KubeProxyConfig, parseKubeProxyConfiguration } from './config.ts'

/**
 * The usual prefix length of a cluster's Pod range with a /24 (or /64) per node, as in the examples of kubeadm and kind.
 */
const USUAL_LENGTH: Record<Family, number> = { ipv4: 16, ipv6: 56 }

/** The leading bits that two addresses share. */
function commonLength(a: number[], b: number[]): number {
  for (let index = 0; index < a.length; index++) {
    const differing = (a[index] ?? 0) ^ (b[index] ?? 0)
    if (differing !== 0) return index * 8 + Math.clz32(differing) - 24
  }
  return a.length * 8
}

function covering(ranges: readonly string[], family: Family): string | undefined {
  const parsed = ranges.filter((range) => familyOf(range) === family).map((range) => ipaddr.parseCIDR(range))
  const first = parsed[0]
  if (!first) return undefined
  const bytes = first[0].toByteArray()
  const length = Math.min(
    USUAL_LENGTH[family],
    ...parsed.map(([address, own]) => Math.min(own, commonLength(bytes, address.toByteArray()))),
  )
  return canonicalCidr(`${first[0].toString()}/${length}`)
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
