import { type ControllerContext, keyOf, writeStatus } from './context.ts'
import { claim, watchOwned } from './ownership.ts'
import { matchesNode, untolerated } from './placement.ts'
import { PodControl, templateHash } from './pod-control.ts'
import {
  byCreation,
  countsAbove0,
  type DaemonSet,
  hasReadyCondition,
  isTerminal,
  isTerminating,
  type NodeObject,
  type Pod,
} from './resources.ts'
import { resolveCount } from './rollout.ts'

/** The label of a daemon Pod with the hash of its template. */
const hashLabel = 'controller-revision-hash'

/** Runs one Pod of each DaemonSet on every selected node, and rolls out template changes. */
export function startDaemonSetController(context: ControllerContext): void {
  const { api } = context
  const control = new PodControl(api, 'daemonset-controller')

  const queue = context.reconcile<DaemonSet>('daemonsets', (daemonSet) => {
    const nodes = api.list<NodeObject>('nodes')
    const hash = templateHash(daemonSet.spec.template)
    const read = () => ({
      daemonSet,
      nodes,
      hash,
      pods: claim<Pod>(api, daemonSet, 'pods').sort(byCreation),
    })
    manage(control, read())
    updatePods(control, read())
    writeStatus(api, 'daemonsets', daemonSet, daemonSetStatus(read()))
  })

  watchOwned(context, queue, 'pods', 'daemonsets')
  context.watch<NodeObject>('nodes', (type, node, previous) => {
    for (const daemonSet of api.list<DaemonSet>('daemonsets')) {
      const changed =
        !previous ||
        type === 'DELETED' ||
        placement(daemonSet, previous) !== placement(daemonSet, node)
      if (changed) queue.add(keyOf(daemonSet))
    }
  })
}

/** The state of one DaemonSet: its Pods, the oldest first, and the hash of its current template. */
interface DaemonSetState {
  daemonSet: DaemonSet
  nodes: readonly NodeObject[]
  pods: readonly Pod[]
  hash: string
}

const podsOn = (pods: readonly Pod[], node: NodeObject) =>
  pods.filter(({ spec }) => spec.nodeName === node.metadata.name)
const isOld = ({ metadata }: Pod, hash: string): boolean => metadata.labels?.[hashLabel] !== hash
const isStaying = (pod: Pod): boolean => !isTerminating(pod)

/** The nodes that need a Pod. */
const wantedNodes = ({ daemonSet, nodes }: DaemonSetState) =>
  nodes.filter((node) => placement(daemonSet, node) === 'run')

/**
 * Creates missing Pods, bound to their node, and deletes Pods that have ended, are duplicates, or
 * run on a wrong node.
 */
function manage(control: PodControl, { daemonSet, nodes, pods, hash }: DaemonSetState): void {
  const { metadata, spec } = daemonSet.spec.template
  const labels = { ...metadata?.labels, [hashLabel]: hash }
  for (const node of nodes) {
    const where = placement(daemonSet, node)
    const present = podsOn(pods, node)
    if (present.length === 0 && where === 'run' && spec)
      control.create(daemonSet, {
        metadata: { ...metadata, labels },
        spec: { ...spec, nodeName: node.metadata.name },
      })
    const live = present.filter(isStaying)
    const running = live.filter((pod) => !isTerminal(pod))
    const surplus = where === 'leave' ? running : running.slice(1)
    for (const pod of [...live.filter(isTerminal), ...surplus]) control.delete(daemonSet, pod)
  }
}

/**
 * Deletes Pods of an earlier template (pkg/controller/daemon/update.go): those that are not ready,
 * then ready ones up to maxUnavailable.
 */
function updatePods(control: PodControl, state: DaemonSetState): void {
  const { daemonSet, pods, hash } = state
  const { updateStrategy } = daemonSet.spec
  if (updateStrategy?.type === 'OnDelete') return
  const wanted = wantedNodes(state)
  const { maxUnavailable = 1 } = updateStrategy?.rollingUpdate ?? {}
  // It is 0 where maxSurge is set, which would start the new Pod beside the old one; here one Pod
  // at a time is replaced.
  const limit = resolveCount(maxUnavailable, wanted.length, Math.ceil) || 1
  const only = wanted.flatMap((node) => {
    const live = podsOn(pods, node).filter(isStaying)
    return live.length === 1 ? live : []
  })
  const broken = only.filter((pod) => !hasReadyCondition(pod) && isOld(pod, hash))
  const unavailable = wanted.length - only.filter(hasReadyCondition).length - broken.length
  const ready = only.filter((pod) => hasReadyCondition(pod) && isOld(pod, hash))
  for (const pod of [...broken, ...ready.slice(0, Math.max(0, limit - unavailable))])
    control.delete(daemonSet, pod)
}

function daemonSetStatus(state: DaemonSetState): NonNullable<DaemonSet['status']> {
  const { daemonSet, nodes, pods, hash } = state
  const wanted = wantedNodes(state)
  const scheduled = wanted.flatMap((node) => podsOn(pods, node).slice(0, 1))
  // A Pod that is being deleted counts as scheduled, but not as ready.
  const live = scheduled.filter(isStaying)
  const ready = live.filter(hasReadyCondition).length
  return {
    currentNumberScheduled: scheduled.length,
    numberMisscheduled: nodes.filter(
      (node) => !wanted.includes(node) && podsOn(pods, node).length > 0,
    ).length,
    desiredNumberScheduled: wanted.length,
    numberReady: ready,
    observedGeneration: daemonSet.metadata.generation ?? 0,
    ...countsAbove0({
      updatedNumberScheduled: live.filter((pod) => !isOld(pod, hash)).length,
      numberAvailable: ready,
      numberUnavailable: wanted.length - ready,
    }),
  }
}

/**
 * `run`: the node needs a Pod, also if it is cordoned; `stay`: a Pod may stay, but none would be
 * started; `leave`: neither.
 */
function placement({ spec: { template } }: DaemonSet, node: NodeObject): 'run' | 'stay' | 'leave' {
  const { spec } = template
  if (!spec || (spec.nodeName && spec.nodeName !== node.metadata.name) || !matchesNode(node, spec))
    return 'leave'
  const effects = untolerated(node, spec.tolerations ?? []).map(({ effect }) => effect)
  if (effects.includes('NoExecute')) return 'leave'
  return effects.includes('NoSchedule') ? 'stay' : 'run'
}
