import { KUBE_PROXY_TABLE, type NftTable } from '../../dataplane/nft-table.ts'
import type { NodeState } from '../../dataplane/node-state.ts'

const nodes = ['k8s-guide-control-plane', 'k8s-guide-worker', 'k8s-guide-worker2']

/** Dotted address number `index` of a range that begins at the given first byte. */
const address = (first: number, index: number) =>
  `${first}.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`

/** ClusterIP of the Service of that number, counted from 0. */
export const syntheticClusterIP = (service: number) => address(10, 0x600000 + service + 1)

/** Address of the first endpoint of the Service of that number. */
export const syntheticEndpoint = (service: number, endpointsEach: number) =>
  address(11, service * endpointsEach + 1)

/**
 * A v1 List as kubectl prints it: three nodes, and `services` ClusterIP Services with `endpoints`
 * ready endpoints each, spread over the nodes. With `answering`, the first and the last Service
 * have this one address of a real listener on port 8080 as their endpoint.
 */
export function syntheticCluster(
  services: number,
  endpointsEach: number,
  answering?: string,
): { kind: string; items: object[] } {
  const items: object[] = nodes.map((name, index) => ({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name },
    spec: { podCIDR: `10.244.${index}.0/24` },
    status: { addresses: [{ type: 'InternalIP', address: `172.18.0.${index + 2}` }] },
  }))
  for (let service = 0; service < services; service++) {
    const name = `service-${service}`
    const namespace = 'bench'
    const clusterIP = syntheticClusterIP(service)
    const real = service === 0 || service === services - 1 ? answering : undefined
    items.push({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, namespace },
      spec: {
        type: 'ClusterIP',
        clusterIP,
        clusterIPs: [clusterIP],
        ports: [{ port: 80, targetPort: 8080, protocol: 'TCP' }],
      },
    })
    items.push({
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        name: `${name}-slice`,
        namespace,
        labels: { 'kubernetes.io/service-name': name },
      },
      addressType: 'IPv4',
      ports: [{ port: 8080, protocol: 'TCP' }],
      endpoints: Array.from({ length: real === undefined ? endpointsEach : 1 }, (_, index) => ({
        addresses: [real ?? address(11, service * endpointsEach + index + 1)],
        conditions: { ready: true },
        nodeName: nodes[index % nodes.length],
      })),
    })
  }
  return { kind: 'List', items }
}

/**
 * The measured node: the name and version of the simulated kube-proxy, the only backend Pod and the
 * client Pod.
 */
export const MEASURED_NODE = 'k8s-guide-worker'
export const MEASURED_VERSION = 'v1.34'
export const SERVER = '10.244.1.3'
export const CLIENT = '10.244.1.2'

/** The numbers of objects on a node for Services. */
export type Counts = ReturnType<typeof countState>

/**
 * Counts a node's objects: rules of all tables, entries of KUBE-SERVICES, members of
 * KUBE-CLUSTER-IP, IPVS entries.
 */
export function countState({ iptables, ipsets, virtualServers }: Omit<NodeState, 'links'>) {
  const chains = [...iptables.values()].flatMap((table) => [...table.values()])
  return {
    rules: chains.reduce((total, { rules }) => total + rules.length, 0),
    entries: iptables.get('nat')?.get('KUBE-SERVICES')?.rules.length ?? 0,
    members: ipsets.get('KUBE-CLUSTER-IP')?.members.size ?? 0,
    virtualServers: virtualServers.length,
    realServers: virtualServers.reduce((total, { realServers }) => total + realServers.length, 0),
  }
}

/** The same of nftables mode: rules of kube-proxy's table, elements of its map of Services. */
export function countTable(tables: readonly NftTable[]): Counts {
  const [table] = tables.filter(({ family, name }) => family === 'ip' && name === KUBE_PROXY_TABLE)
  const chains = [...(table?.chains.values() ?? [])]
  return {
    rules: chains.reduce((total, { rules }) => total + rules.length, 0),
    entries: 0,
    members: table?.maps.get('service-ips')?.elements.size ?? 0,
    virtualServers: 0,
    realServers: 0,
  }
}
