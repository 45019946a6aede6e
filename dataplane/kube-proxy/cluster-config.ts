import ipaddr from 'ipaddr.js'
import { canonicalCidr, type Family, familyOf } from '../ip-address.ts'
import type { NodeState } from '../node-state.ts'
import type { ClusterObjects } from '../objects.ts'
import { defaultConfig, type KubeProxyConfig, parseKubeProxyConfiguration } from './config.ts'

/** The usual size of a cluster's Pod range where each node has a /24 (or /64): kubeadm's and kind's examples. */
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

/** The Pod range of the whole cluster that the nodes' own ranges suggest, as kubeadm would write it; empty without any. */
export function likelyClusterCIDR(objects: ClusterObjects): string {
  const ranges = objects.nodes.flatMap((node) => node.podCIDRs)
  const found = (['ipv4', 'ipv6'] as const).map((family) => covering(ranges, family))
  return found.filter((range) => range !== undefined).join(',')
}

/**
 * The configuration that kube-proxy runs with: the ConfigMap's, where the objects hold it, else the defaults with the
 * clusterCIDR that the nodes suggest.
 * @throws ConfigError when the ConfigMap holds a configuration that cannot be used.
 */
export function clusterConfig(objects: ClusterObjects): KubeProxyConfig {
  const text = objects.kubeProxyConfigMap?.['config.conf']
  return text === undefined
    ? { ...defaultConfig(), clusterCIDR: likelyClusterCIDR(objects) }
    : parseKubeProxyConfiguration(text)
}

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
