import type { NodeState } from '../../dataplane/node-state.ts'

/** The measured node: the name and version of the simulated kube-proxy, the only backend Pod and the client Pod. */
export const MEASURED_NODE = 'k8s-guide-worker'
export const MEASURED_VERSION = 'v1.34'
export const SERVER = '10.244.1.3'
export const CLIENT = '10.244.1.2'

/** How much a node holds for Services. */
export interface Counts {
  rules: number
  entries: number
  members: number
  virtualServers: number
  realServers: number
}

/** Counts what a node holds: rules of all tables, entries of KUBE-SERVICES, members of KUBE-CLUSTER-IP, IPVS entries. */
export function countState({ iptables, ipsets, virtualServers }: Omit<NodeState, 'links'>): Counts {
  const chains = [...iptables.values()].flatMap((table) => [...table.values()])
  return {
    rules: chains.reduce((total, { rules }) => total + rules.length, 0),
    entries: iptables.get('nat')?.get('KUBE-SERVICES')?.rules.length ?? 0,
    members: ipsets.get('KUBE-CLUSTER-IP')?.members.size ?? 0,
    virtualServers: virtualServers.length,
    realServers: virtualServers.reduce((total, { realServers }) => total + realServers.length, 0),
  }
}
