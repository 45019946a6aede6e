import { sameJson } from '../apiserver/json.ts'
import { type ControllerContext, keyOf, splitKey, writeStatus } from './context.ts'
import { EventRecorder } from './events.ts'
import { bestNode, obstacle, readSchedulingView, unschedulableMessage } from './placement.ts'
import {
  isTerminal,
  isTerminating,
  type NodeObject,
  type Pod,
  withConditions,
} from './resources.ts'

const schedulerName = 'default-scheduler'

/** Binds Pods to nodes. */
export function startScheduler(context: ControllerContext): void {
  const { api } = context
  const recorder = new EventRecorder(api, schedulerName)

  const queue = context.queue((key) => {
    const { namespace, name } = splitKey(key)
    const pod = api.get<Pod>('pods', namespace, name)
    if (!pod || !wantsNode(pod)) return
    const view = readSchedulingView(api)
    const judged = view.nodes.map((node) => ({ node, reason: obstacle(pod, node, view) }))
    const candidates = judged.filter(({ reason }) => reason === undefined).map(({ node }) => node)
    const nodeName = bestNode(pod, candidates, view)?.metadata.name
    if (nodeName !== undefined) {
      const bound = api.patch<Pod>('pods', namespace, name, { spec: { nodeName } })
      report(bound, 'True')
      recorder.event(
        bound,
        'Normal',
        'Scheduled',
        `Successfully assigned ${namespace}/${name} to ${nodeName}`,
      )
    } else {
      const message = unschedulableMessage(judged.flatMap(({ reason }) => reason ?? []))
      report(pod, 'False', { reason: 'Unschedulable', message })
      recorder.event(pod, 'Warning', 'FailedScheduling', message)
    }
  })

  function report(
    pod: Pod,
    status: 'True' | 'False',
    why: { reason?: string; message?: string } = {},
  ) {
    const conditions = withConditions(pod.status?.conditions, [
      { type: 'PodScheduled', status, ...why },
    ])
    writeStatus(api, 'pods', pod, { ...pod.status, conditions })
  }

  // Once for all changes of a turn.
  const retries = context.queue(() => {
    for (const pod of api.list<Pod>('pods')) if (wantsNode(pod)) queue.add(keyOf(pod))
  })

  context.watch<Pod>('pods', (type, pod, previous) => {
    const facts = ({ metadata: { labels }, spec, status }: Pod) => [labels, spec, status?.phase]
    if (type !== 'DELETED' && previous && sameJson(facts(previous), facts(pod))) return
    if (type !== 'DELETED' && wantsNode(pod)) queue.add(keyOf(pod))
    else retries.add('pods')
  })
  context.watch<NodeObject>('nodes', (type, node, previous) => {
    // Not its heartbeat.
    const facts = ({ metadata: { labels }, spec, status }: NodeObject) => [
      labels,
      spec,
      status?.allocatable,
    ]
    if (type === 'DELETED' || !previous || !sameJson(facts(previous), facts(node)))
      retries.add('pods')
  })
}

function wantsNode(pod: Pod): boolean {
  const { nodeName, schedulerName: wanted = schedulerName } = pod.spec
  return !nodeName && wanted === schedulerName && !isTerminal(pod) && !isTerminating(pod)
}
