import type { Api } from '../apiserver/api.ts'
import type { EventRecorder } from '../controllers/events.ts'
import type { Machine } from '../machine/machine.ts'
import type { NodePlan } from '../network/node-plan.ts'
import type { Network } from '../network/topology.ts'
import type { Prober } from './prober.ts'

/** What all parts of one node's kubelet share. */
export interface NodeContext {
  readonly machine: Machine
  readonly network: Network
  readonly api: Api
  readonly node: NodePlan
  readonly events: EventRecorder
  readonly prober: Prober
}
