import { type ControllerContext, keyOf, writeStatus } from './context.ts'
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
import { claim, watchOwned } from './ownership.ts'
import { createPodControl, type PodControl } from './pod-control.ts'
import { countsAbove0, type DaemonSet, isReady, isTerminal, isTerminating, type Node, type Pod } from './resources.ts'

/** Runs one Pod of each DaemonSet on every selected node, and rolls out template changes. */
export function startDaemonSetController(context: ControllerContext): void {
  const { api } = context
  const recorder = context.recorder('daemonset-controller')
  const control = createPodControl(context, recorder)

  const queue = context.reconcile<DaemonSet>('daemonsets', (daemonSet) => {
    if (daemonSet.metadata.deletionTimestamp) return
    const nodes = api.list<Node>('nodes')
    const hash = currentRevision(context, daemonSet)
    const podsByNode = () => groupByNode(claim<Pod>(api, daemonSet, 'pods'))
    // A failed write does not prevent the status update; the queue retries.
    try {
      manage(control, recorder, daemonSet, nodes, podsByNode(), hash)
      update(control, daemonSet, nodes, podsByNode(), hash)
      cleanUpRevisions(context, daemonSet, [...podsByNode().values()].flat())
    } finally {
      writeStatus(api, 'daemonsets', daemonSet, statusOf(daemonSet, nodes, podsByNode(), hash))
    }
  })

  watchOwned(context, queue, 'pods', { resource: 'daemonsets', kind: 'DaemonSet' })
  context.watch<Node>('nodes', ({ type, object, previous }) => {
    for (const daemonSet of api.list<DaemonSet>('daemonsets')) {
      const changed = !previous || type === 'DELETED' || placement(daemonSet, previous) !== placement(daemonSet, object)
      if (changed) queue.add(keyOf(daemonSet))
    }
  })
}

type PodsByNode = ReadonlyMap<string, readonly Pod[]>

/** The Pods of each node, the oldest first. */
function groupByNode(pods: readonly Pod[]): PodsByNode {
  const groups = new Map<string, Pod[]>()
  for (const pod of [...pods].sort(oldestFirst)) {
    const node = targetNode(pod)
    if (node !== undefined) groups.set(node, [...(groups.get(node) ?? []), pod])
  }
  return groups
}

function oldestFirst({ metadata: left }: Pod, { metadata: right }: Pod): number {
  const key = ({ creationTimestamp, name }: Pod['metadata']) => `${creationTimestamp} ${name}`
  return key(left) < key(right) ? -1 : 1
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
  for (const node of nodes) {
    const where = placement(daemonSet, node)
    const present = pods.get(node.metadata.name) ?? []
    if (present.length === 0 && where === 'run') {
      const labels = { [revisionHashLabel]: hash }
      control.create(daemonSet, templateForNode(daemonSet.spec.template, node.metadata.name, labels))
    }
    const live = present.filter((pod) => !isTerminating(pod))
    const ended = live.filter(isTerminal)
    for (const { metadata, status } of ended) {
      const phase = status?.phase ?? 'Failed'
      const message = `Found ${phase.toLowerCase()} daemon pod ${metadata.namespace}/${metadata.name} on node ${node.metadata.name}, will try to kill it`
      recorder.event(daemonSet, phase === 'Failed' ? 'Warning' : 'Normal', `${phase}DaemonPod`, message)
    }
    const running = live.filter((pod) => !isTerminal(pod))
    const surplus = where === 'leave' ? running : running.slice(1)
    for (const pod of [...ended, ...surplus]) control.delete(daemonSet, pod)
  }
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
  for (const pod of replacements(daemonSet, wanted, pods, hash)) control.delete(daemonSet, pod)
}

function statusOf(
  daemonSet: DaemonSet,
  nodes: readonly Node[],
  pods: PodsByNode,
  hash: string,
): NonNullable<DaemonSet['status']> {
  const podsOn = ({ metadata }: Node) => pods.get(metadata.name) ?? []
  const wanted = nodes.filter((node) => placement(daemonSet, node) === 'run')
  const scheduled = wanted.flatMap((node) => podsOn(node).slice(0, 1))
  // A Pod that is being deleted counts as scheduled, but not as ready.
  const live = scheduled.filter((pod) => !isTerminating(pod))
  const ready = live.filter(isReady).length
  return {
    currentNumberScheduled: scheduled.length,
    numberMisscheduled: nodes.filter((node) => !wanted.includes(node) && podsOn(node).length > 0).length,
    desiredNumberScheduled: wanted.length,
    numberReady: ready,
    observedGeneration: daemonSet.metadata.generation ?? 0,
    ...countsAbove0({
      updatedNumberScheduled: live.filter(({ metadata }) => metadata.labels?.[revisionHashLabel] === hash).length,
      numberAvailable: ready,
      numberUnavailable: wanted.length - ready,
    }),
  }
}
