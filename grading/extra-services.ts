import { z } from 'zod'
import { isServiceChain } from '../dataplane/kube-proxy/ruleset-builder.ts'
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
const ruleCount = z.object({
  /** Rules of nat KUBE-SERVICES. */
  rules: z.number(),
  /** Chains of single Services and endpoints. */
  chains: z.number(),
  /** Members of KUBE-CLUSTER-IP. */
  members: z.number(),
})

/** A note of the counts on every node, with the number of Service ports at that time. */
const countNote = z.object({ ports: z.number(), nodes: z.record(z.string(), ruleCount) })
export type CountNote = z.infer<typeof countNote>

function countRules(node: NodeView): z.infer<typeof ruleCount> {
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

/** True for a result of `countEverywhere` that was read from the cluster. */
export const isCountNote = (value: unknown): value is CountNote =>
  Object.keys(countNote.safeParse(value).data?.nodes ?? {}).length > 0
