import { selectsEverything } from '../../dataplane/label-selector.ts'
import { type ControllerContext, keyOf, splitKey, writeStatus } from './context.ts'
import {
  cleanUpRevisions,
  currentRevision,
  placement,
  replacements,
  revisionHashLabel,
  targetNode,
  templateForNode,
} from './daemon-pods.ts'
import type { EventRecorder } from './events.ts'
import { claim, controllerOf, inNamespaceOf, wouldClaim } from './ownership.ts'
import { createPodControl, type PodControl } from './pod-control.ts'
import {
  availableIn,
  type DaemonSet,
  isAvailable,
  isReady,
  isTerminal,
  isTerminating,
  type Node,
  type Pod,
} from './resources.ts'

/** Runs one Pod of each DaemonSet on every selected node, and rolls out template changes. */
export function startDaemonSetController(context: ControllerContext): void {
  const { api } = context
  const recorder = context.recorder('daemonset-controller')
  const control = createPodControl(context, recorder)

  const queue = context.queue((key) => {
    const { namespace, name } = splitKey(key)
    const daemonSet = api.get<DaemonSet>('daemonsets', namespace, name)
    if (!daemonSet) return
    if (selectsEverything(daemonSet.spec.selector)) {
      const message = 'This daemon set is selecting all pods. A non-empty selector is required.'
      recorder.event(daemonSet, 'Warning', 'SelectingAll', message)
      return
    }
    if (daemonSet.metadata.deletionTimestamp) return
    const nodes = api.list<Node>('nodes')
    const hash = currentRevision(context, daemonSet)
    const podsByNode = () => groupByNode(claim<Pod>(api, daemonSet, 'pods'))
    // Errors of writes are thrown after the status update, so that a failure does not prevent it; the queue
    // retries.
    let failure: { error: unknown } | undefined
    try {
      manage(control, recorder, daemonSet, nodes, podsByNode(), hash)
      update(control, daemonSet, nodes, podsByNode(), hash)
      cleanUpRevisions(context, daemonSet, [...podsByNode().values()].flat())
    } catch (error) {
      failure = { error }
    }
    const pods = podsByNode()
    writeStatus(api, 'daemonsets', daemonSet, statusOf(daemonSet, nodes, pods, hash))
    const { minReadySeconds = 0 } = daemonSet.spec
    const waits = [...pods.values()].flat().map((pod) => availableIn(pod, minReadySeconds, Date.now()))
    const next = Math.min(...waits.filter((wait) => wait > 0))
    if (next < Number.POSITIVE_INFINITY) queue.addAfter(key, next)
    if (failure) throw failure.error
  })

  context.watch<DaemonSet>('daemonsets', ({ type, object }) => {
    if (type !== 'DELETED') queue.add(keyOf(object))
  })
  context.watch<Pod>('pods', ({ object, previous }) => {
    for (const pod of previous ? [previous, object] : [object]) {
      const owner = controllerOf(pod)
      if (owner?.kind === 'DaemonSet') queue.add(`${pod.metadata.namespace}/${owner.name}`)
    }
    if (controllerOf(object)) return
    for (const daemonSet of api.list<DaemonSet>('daemonsets', inNamespaceOf(object))) {
      if (wouldClaim(daemonSet, object.metadata.labels)) queue.add(keyOf(daemonSet))
    }
  })
  context.watch<Node>('nodes', ({ type, object, previous }) => {
    for (const daemonSet of api.list<DaemonSet>('daemonsets')) {
      const changed = !previous || type === 'DELETED' || placement(daemonSet, previous) !== placement(daemonSet, object)
      if (changed) queue.add(keyOf(daemonSet))
    }
  })
}

type PodsByNode = ReadonlyMap<string, readonly Pod[]>

function groupByNode(pods: readonly Pod[]): PodsByNode {
  const groups = new Map<string, Pod[]>()
  for (const pod of pods) {
    const node = targetNode(pod)
    if (node === undefined) continue
    const group = groups.get(node)
    if (group) group.push(pod)
    else groups.set(node, [pod])
  }
  return groups
}

/** Creates missing Pods, and deletes Pods that have ended, are duplicates, or run on a wrong node. */
function manage(
  control: PodControl,
  recorder: EventRecorder,
  daemonSet: DaemonSet,
  nodes: readonly Node[],
  pods: PodsByNode,
  hash: string,
): void {
  const labels = { [revisionHashLabel]: hash }
  for (const node of nodes) {
    const where = placement(daemonSet, node)
    const present = pods.get(node.metadata.name) ?? []
    const live = present.filter((pod) => !isTerminating(pod))
    if (present.length === 0 && where === 'run') {
      control.create(daemonSet, templateForNode(daemonSet.spec.template, node.metadata.name, labels))
    }
    const ended = live.filter(isTerminal)
    for (const pod of ended) {
      const { namespace, name } = pod.metadata
      const phase = pod.status?.phase ?? 'Failed'
      const message = `Found ${phase.toLowerCase()} daemon pod ${namespace}/${name} on node ${node.metadata.name}, will try to kill it`
      recorder.event(daemonSet, phase === 'Failed' ? 'Warning' : 'Normal', `${phase}DaemonPod`, message)
    }
    const running = live.filter((pod) => !isTerminal(pod)).sort(oldestFirst)
    const surplus = where === 'leave' ? running : running.slice(1)
    for (const pod of [...ended, ...surplus]) control.delete(daemonSet, pod)
  }
}

function oldestFirst(left: Pod, right: Pod): number {
  const [a, b] = [left.metadata, right.metadata]
  return a.creationTimestamp < b.creationTimestamp || (a.creationTimestamp === b.creationTimestamp && a.name < b.name)
    ? -1
    : 1
}

function update(
  control: PodControl,
  daemonSet: DaemonSet,
  nodes: readonly Node[],
  pods: PodsByNode,
  hash: string,
): void {
  if (daemonSet.spec.updateStrategy?.type === 'OnDelete') return
  const wanted = nodes.filter((node) => placement(daemonSet, node) === 'run').map(({ metadata }) => metadata.name)
  for (const pod of replacements(daemonSet, wanted, pods, hash, Date.now())) control.delete(daemonSet, pod)
}

function statusOf(
  daemonSet: DaemonSet,
  nodes: readonly Node[],
  podsByNode: PodsByNode,
  hash: string,
): NonNullable<DaemonSet['status']> {
  const { minReadySeconds = 0 } = daemonSet.spec
  const now = Date.now()
  const counts = { desired: 0, current: 0, misscheduled: 0, ready: 0, updated: 0, available: 0 }
  for (const node of nodes) {
    const pods = podsByNode.get(node.metadata.name) ?? []
    if (placement(daemonSet, node) !== 'run') {
      if (pods.length > 0) counts.misscheduled++
      continue
    }
    counts.desired++
    const [pod] = [...pods].sort(oldestFirst)
    if (!pod) continue
    counts.current++
    // A Pod that is being deleted counts as scheduled, but not as ready or available.
    if (isTerminating(pod)) continue
    if (isReady(pod)) counts.ready++
    if (isAvailable(pod, minReadySeconds, now)) counts.available++
    if (pod.metadata.labels?.[revisionHashLabel] === hash) counts.updated++
  }
  return {
    currentNumberScheduled: counts.current,
    numberMisscheduled: counts.misscheduled,
    desiredNumberScheduled: counts.desired,
    numberReady: counts.ready,
    observedGeneration: daemonSet.metadata.generation ?? 0,
    ...(counts.updated > 0 && { updatedNumberScheduled: counts.updated }),
    ...(counts.available > 0 && { numberAvailable: counts.available }),
    ...(counts.desired > counts.available && { numberUnavailable: counts.desired - counts.available }),
  }
}
