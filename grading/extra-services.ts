import { isServiceChain } from '../dataplane/kube-proxy/rule-text.ts'
import type { Service } from '../dataplane/objects.ts'
import { type NodeView, objectsOf, type Snapshot, stateOf } from './snapshot.ts'

/** Number of Services in labs/02-ipvs/manifests/crowd.yaml. */
export const EXTRA_SERVICES = 20
const EXTRA_NAME = /^crowd-\d+$/

/** The Services that lab 2 adds to show how each mode scales. */
export function extraServices(snapshot: Snapshot): Service[] {
  return objectsOf(snapshot).services.filter(
    (service) => service.namespace === 'default' && EXTRA_NAME.test(service.name),
  )
}

/** The counts of one node's rules and sets for Services. */
export interface RuleCount {
  /** Rules of nat KUBE-SERVICES. */
  rules: number
  /** Chains of single Services and endpoints. */
  chains: number
  /** Members of KUBE-CLUSTER-IP. */
  members: number
}

/** A note of the counts on every node, with the number of Service ports at that time. */
export interface CountNote {
  ports: number
  nodes: Record<string, RuleCount>
}

function countRules(node: NodeView): RuleCount {
  const state = stateOf(node)
  const nat = state.iptables.get('nat')
  return {
    rules: nat?.get('KUBE-SERVICES')?.rules.length ?? 0,
    chains: [...(nat?.keys() ?? [])].filter(isServiceChain).length,
    members: state.ipsets.get('KUBE-CLUSTER-IP')?.members.size ?? 0,
  }
}

/** Ports of Services that have a ClusterIP. */
function servicePortCount(snapshot: Snapshot): number {
  return objectsOf(snapshot)
    .services.filter((service) => service.clusterIPs.length > 0)
    .reduce((total, service) => total + service.ports.length, 0)
}

export function countEverywhere(snapshot: Snapshot): CountNote {
  const nodes = Object.fromEntries(snapshot.nodes.map((node) => [node.name, countRules(node)]))
  return { ports: servicePortCount(snapshot), nodes }
}

const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value)
const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

/** True for a result of `countEverywhere` that was read from the cluster. */
export function isCountNote(value: unknown): value is CountNote {
  if (!isRecord(value) || !isNumber(value.ports) || !isRecord(value.nodes)) return false
  const counts = Object.values(value.nodes)
  return (
    counts.length > 0 &&
    counts.every((count) => isRecord(count) && [count.rules, count.chains, count.members].every(isNumber))
  )
}
