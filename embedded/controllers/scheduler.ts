import type { V1PodCondition } from '@kubernetes/client-node'
import { sameJson } from '../apiserver/json.ts'
import { timestamp } from '../apiserver/object-lifecycle.ts'
import { hasReason } from '../apiserver/status-error.ts'
import { type ControllerContext, keyOf, splitKey, writeStatus } from './context.ts'
import { bestNode, obstacle, readSchedulingView, taintsOf, unschedulableMessage } from './placement.ts'
import { isTerminal, isTerminating, type Node, type Pod, type Stored } from './resources.ts'

const schedulerName = 'default-scheduler'

/** Binds Pods to nodes. */
export function startScheduler(context: ControllerContext): void {
  const { api } = context
  const recorder = context.recorder(schedulerName)
  const waiting = new Set<string>()

  const queue = context.queue((key) => {
    const { namespace, name } = splitKey(key)
    waiting.delete(key)
    const pod = api.get<Pod>('pods', namespace, name)
    if (!pod || !wantsNode(pod)) return
    const view = readSchedulingView(api)
    const judged = view.nodes.map((node) => ({ node, reason: obstacle(pod, node, view) }))
    const candidates = judged.filter(({ reason }) => reason === undefined).map(({ node }) => node)
    const node = bestNode(pod, candidates, view)
    if (node) bind(pod, node)
    else {
      waiting.add(key)
      const message = unschedulableMessage(judged.flatMap(({ reason }) => reason ?? []))
      writeCondition(pod, { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message })
      recorder.event(pod, 'Warning', 'FailedScheduling', message)
    }
  })

  function bind(pod: Pod, node: Node) {
    const { namespace, name, uid } = pod.metadata
    try {
      api.patch<Pod>('pods', namespace, name, { metadata: { uid }, spec: { nodeName: node.metadata.name } })
    } catch (error) {
      // The Pod was deleted, or replaced by another one of the same name: there is nothing to bind.
      if (hasReason(error, 'NotFound') || hasReason(error, 'Conflict')) return
      throw error
    }
    writeCondition(pod, { type: 'PodScheduled', status: 'True' })
    recorder.event(pod, 'Normal', 'Scheduled', `Successfully assigned ${namespace}/${name} to ${node.metadata.name}`)
  }

  function writeCondition(pod: Pod, next: Stored<V1PodCondition>) {
    const current = api.get<Pod>('pods', pod.metadata.namespace, pod.metadata.name)
    const conditions = current?.status?.conditions ?? []
    const before = conditions.find(({ type }) => type === next.type)
    const lastTransitionTime = before?.status === next.status ? (before.lastTransitionTime ?? timestamp()) : timestamp()
    const condition = { ...next, lastTransitionTime }
    const others = conditions.filter(({ type }) => type !== next.type)
    const position = before ? conditions.indexOf(before) : others.length
    writeStatus(api, 'pods', pod, { ...current?.status, conditions: others.toSpliced(position, 0, condition) })
  }

  function retryWaiting() {
    for (const key of waiting) queue.add(key)
  }

  context.watch<Pod>('pods', ({ type, object, previous }) => {
    if (type !== 'DELETED' && wantsNode(object)) {
      const answered =
        previous && sameJson(previous.spec, object.spec) && sameJson(previous.metadata.labels, object.metadata.labels)
      if (!answered) queue.add(keyOf(object))
      return
    }
    waiting.delete(keyOf(object))
    const placeChanged =
      type === 'DELETED' ||
      previous?.spec.nodeName !== object.spec.nodeName ||
      !sameJson(previous?.metadata.labels, object.metadata.labels) ||
      isTerminal(object) !== (previous !== undefined && isTerminal(previous))
    if (placeChanged) retryWaiting()
  })
  context.watch<Node>('nodes', ({ type, object, previous }) => {
    if (type === 'DELETED' || !previous || !sameJson(view(previous), view(object))) retryWaiting()
  })
}

/** The properties of a node that scheduling depends on, without its heartbeat. */
function view(node: Node) {
  const { metadata, spec, status } = node
  return [metadata.labels, spec.unschedulable, taintsOf(node), status?.allocatable]
}

function wantsNode(pod: Pod): boolean {
  const { nodeName, schedulerName: wanted = schedulerName } = pod.spec
  return !nodeName && wanted === schedulerName && !isTerminal(pod) && !isTerminating(pod)
}
