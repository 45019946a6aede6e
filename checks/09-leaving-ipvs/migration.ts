// Which change of mode the learner makes on this cluster, and what is predicted to change by it.

import * as z from 'zod'
import { VersionError } from '../../dataplane/kube-proxy/versions.ts'
import { planServiceChanges } from '../../dataplane/migration/plan-migration.ts'
import type { ServiceChange } from '../../dataplane/migration/report-shape.ts'
import type { ClusterObjects } from '../../dataplane/objects.ts'
import { PredictError } from '../../dataplane/predict.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { configOf } from '../../grading/evaluate.ts'
import { expectThat, fail, NotApplicable, OutOfReach, Trouble } from '../../grading/failure.ts'
import { missingKernelFeatures } from '../../grading/kernel-features.ts'
import {
  kubeProxyVersionOf,
  modeOf,
  objectsOf,
  type Snapshot,
  stateOf,
} from '../../grading/snapshot.ts'
import { hasNftables } from '../07-before-and-after/nftables.ts'

const NOTE = 'migration'
const migrationNote = z.object({
  from: z.enum(['ipvs', 'iptables']),
  to: z.enum(['iptables', 'nftables']),
})

/** The modes before and after. A kernel without IPVS starts from iptables mode. */
export type ModePair = z.infer<typeof migrationNote>

/**
 * The change that was noted at the start. Throws NotApplicable for a capture without the note,
 * OutOfReach for a kube-proxy without the mode to go to, Failure where there is none.
 */
export function modeChange({
  notes,
  live,
  nodes,
}: Pick<CheckContext, 'notes' | 'live' | 'nodes'>): ModePair {
  const change = notes.read(NOTE, migrationNote)
  if (live && change?.to === 'nftables' && !nodes.every(hasNftables))
    throw new OutOfReach('this kube-proxy has no mode nftables')
  if (change) return change
  if (!live) throw new NotApplicable('the notes of this capture have no change of mode')
  fail({
    inspect: 'kubectl get configmap lab-9 -o yaml',
    expected: 'the note of the change that begins here',
    actual: 'none',
    hint: 'The lab starts over with `make reset-9`.',
  })
}

/** The change whose old mode is IPVS. Throws OutOfReach for the other one. */
export function changeFromIpvs(context: CheckContext): ModePair {
  const change = modeChange(context)
  if (change.from !== 'ipvs')
    throw new OutOfReach('this cluster did not start in IPVS mode, so IPVS leaves nothing')
  return change
}

/** The change to nftables mode. Throws OutOfReach for the other one. */
export function changeToNftables(context: CheckContext): ModePair {
  const change = modeChange(context)
  if (change.to !== 'nftables')
    throw new OutOfReach(
      'this change is not to nftables mode, and between iptables and IPVS mode no node is without rules',
    )
  return change
}

/**
 * Observer: notes the change when the lab starts, while every node runs the mode that it leaves.
 */
export function keepChange({ nodes, notes }: CheckContext): void {
  const runs = (mode: string) => nodes.every((node) => modeOf(node) === mode)
  if (runs('ipvs')) notes.keep(NOTE, { from: 'ipvs', to: 'iptables' } satisfies ModePair)
  else if (runs('iptables'))
    notes.keep(NOTE, { from: 'iptables', to: 'nftables' } satisfies ModePair)
}

/**
 * The change of this cluster, which its kernel must allow. Fails if another one was noted, throws
 * OutOfReach if there is none.
 */
export async function beginChange(context: CheckContext): Promise<ModePair> {
  const change = modeChange(context)
  const { live, nodes } = context
  if (!live) return change
  const lacksIpvs = await missingKernelFeatures(live, nodes, 'ipvs')
  if (lacksIpvs !== undefined) {
    const lacks = await missingKernelFeatures(live, nodes, 'nftables')
    if (lacks !== undefined)
      throw new OutOfReach(`there is no other mode to go to: ${lacksIpvs}, and ${lacks}`)
  }
  const from = lacksIpvs === undefined ? 'ipvs' : 'iptables'
  expectThat(change.from === from, {
    inspect: 'kubectl get configmap lab-9 -o yaml',
    expected: `a lab that starts in ${from} mode on this kernel`,
    actual: `it started in ${change.from} mode`,
    hint: 'The lab starts over with `make reset-9`.',
  })
  return change
}

const plans = new WeakMap<ClusterObjects, Map<string, readonly ServiceChange[]>>()

/**
 * What the change does to the clients of each Service, as `make migration` lists it. Throws Trouble
 * for a version that is not modelled.
 */
export function plannedChanges(
  snapshot: Snapshot,
  { from, to }: ModePair,
  objects = objectsOf(snapshot),
): readonly ServiceChange[] {
  const known = plans.get(objects) ?? new Map<string, readonly ServiceChange[]>()
  plans.set(objects, known)
  const key = `${from} ${to}`
  const found = known.get(key)
  if (found) return found
  const [first] = snapshot.nodes
  if (!first) throw new Trouble('no node was read')
  const version = kubeProxyVersionOf(first)
  const links = new Map(snapshot.nodes.map((node) => [node.name, stateOf(node).links]))
  try {
    const sides = [from, to].map((mode) => ({ mode, version })) as [Side, Side]
    const settings = { config: configOf(snapshot), links }
    const changes = planServiceChanges(objects, ...sides, settings)
    known.set(key, changes)
    return changes
  } catch (error) {
    if (error instanceof VersionError || error instanceof PredictError)
      throw new Trouble(error.message)
    throw error
  }
}
type Side = Parameters<typeof planServiceChanges>[1]
