import { type ControllerContext, keyOf, writeStatus } from './context.ts'
import { claim, watchOwned } from './ownership.ts'
import { matchesNode, type Toleration, untolerated } from './placement.ts'
import { PodControl, templateHash } from './pod-control.ts'
import {
  byCreation,
  countsAbove0,
  type DaemonSet,
  isReady,
  isTerminal,
  isTerminating,
  type Node,
  type Pod,
  type PodTemplate,
} from './resources.ts'
import { countOf } from './rollout.ts'

/** The label of a daemon Pod with the hash of its template. */
const hashLabel = 'controller-revision-hash'

/** Runs one Pod of each DaemonSet on every selected node, and rolls out template changes. */
export function startDaemonSetController(context: ControllerContext): void {
  const { api } = context
  const control = new PodControl(api, context.recorder('daemonset-controller'))

  const queue = context.reconcile<DaemonSet>('daemonsets', (daemonSet) => {
    if (daemonSet.metadata.deletionTimestamp) return
    const nodes = api.list<Node>('nodes')
    const hash = templateHash(daemonSet.spec.template)
    const read = () => ({ daemonSet, nodes, hash, pods: groupByNode(claim<Pod>(api, daemonSet, 'pods')) })
    // A failed write does not prevent the status update; the queue retries.
    try {
      manage(control, read())
      update(control, read())
    } finally {
      writeStatus(api, 'daemonsets', daemonSet, statusOf(read()))
    }
  })

  watchOwned(context, queue, 'pods', 'daemonsets')
  context.watch<Node>('nodes', ({ type, object, previous }) => {
    for (const daemonSet of api.list<DaemonSet>('daemonsets')) {
      const changed = !previous || type === 'DELETED' || placement(daemonSet, previous) !== placement(daemonSet, object)
      if (changed) queue.add(keyOf(daemonSet))
    }
  })
}

/** The state of one DaemonSet; `hash` is that of its current template. */
interface State {
  daemonSet: DaemonSet
  nodes: readonly Node[]
  pods: ReadonlyMap<string, readonly Pod[]>
  hash: string
}

/** The Pods of each node that they run on or are created for, the oldest first. */
function groupByNode(pods: readonly Pod[]): State['pods'] {
  const groups = new Map<string, Pod[]>()
  for (const pod of pods.toSorted(byCreation)) {
    const required = pod.spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution
    const node = pod.spec.nodeName ?? required?.nodeSelectorTerms[0]?.matchFields?.[0]?.values?.[0]
    if (node !== undefined) groups.set(node, [...(groups.get(node) ?? []), pod])
  }
  return groups
}

const isOld = ({ metadata }: Pod, hash: string): boolean => metadata.labels?.[hashLabel] !== hash

/** Creates missing Pods, and deletes Pods that have ended, are duplicates, or run on a wrong node. */
function manage(control: PodControl, { daemonSet, nodes, pods, hash }: State): void {
  for (const node of nodes) {
    const where = placement(daemonSet, node)
    const present = pods.get(node.metadata.name) ?? []
    if (present.length === 0 && where === 'run')
      control.create(daemonSet, templateForNode(daemonSet.spec.template, node.metadata.name, hash))
    const live = present.filter((pod) => !isTerminating(pod))
    const running = live.filter((pod) => !isTerminal(pod))
    const surplus = where === 'leave' ? running : running.slice(1)
    for (const pod of [...live.filter(isTerminal), ...surplus]) control.delete(daemonSet, pod)
  }
}

/**
 * Deletes Pods of an earlier template, as pkg/controller/daemon/update.go chooses: first those that are not ready, then
 * ready ones while no more than maxUnavailable (default 1; percentages round up) of the wanted nodes lack a ready Pod.
 */
function update(control: PodControl, { daemonSet, nodes, pods, hash }: State): void {
  const { updateStrategy } = daemonSet.spec
  if (updateStrategy?.type === 'OnDelete') return
  const wanted = nodes.filter((node) => placement(daemonSet, node) === 'run')
  const limit = countOf(updateStrategy?.rollingUpdate?.maxUnavailable ?? 1, wanted.length, Math.ceil)
  const only = wanted.flatMap((node) => {
    const live = (pods.get(node.metadata.name) ?? []).filter((pod) => !isTerminating(pod))
    return live.length === 1 ? live : []
  })
  const broken = only.filter((pod) => !isReady(pod) && isOld(pod, hash))
  const unavailable = wanted.length - only.filter(isReady).length - broken.length
  const ready = only.filter((pod) => isReady(pod) && isOld(pod, hash))
  for (const pod of [...broken, ...ready.slice(0, Math.max(0, limit - unavailable))]) control.delete(daemonSet, pod)
}

function statusOf({ daemonSet, nodes, pods, hash }: State): NonNullable<DaemonSet['status']> {
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
      updatedNumberScheduled: live.filter((pod) => !isOld(pod, hash)).length,
      numberAvailable: ready,
      numberUnavailable: wanted.length - ready,
    }),
  }
}

// The nodes on which a DaemonSet needs a Pod, and the node affinity of its Pods (pkg/controller/daemon and its util
// package).

/** The template's tolerations, and those that every Pod of a DaemonSet gets, so that it runs on nodes with these taints. */
function tolerationsOf({ spec }: PodTemplate): Toleration[] {
  const tolerate = (name: string, effect: string) => ({ key: `node.kubernetes.io/${name}`, operator: 'Exists', effect })
  return [
    ...(spec?.tolerations ?? []),
    tolerate('not-ready', 'NoExecute'),
    tolerate('unreachable', 'NoExecute'),
    tolerate('disk-pressure', 'NoSchedule'),
    tolerate('memory-pressure', 'NoSchedule'),
    tolerate('pid-pressure', 'NoSchedule'),
    tolerate('unschedulable', 'NoSchedule'),
    ...(spec?.hostNetwork ? [tolerate('network-unavailable', 'NoSchedule')] : []),
  ]
}

/** `run`: the node needs a Pod; `stay`: an existing Pod may stay, but none would be started; `leave`: neither. */
function placement({ spec: { template } }: DaemonSet, node: Node): 'run' | 'stay' | 'leave' {
  const { spec } = template
  if (!spec || (spec.nodeName && spec.nodeName !== node.metadata.name) || !matchesNode(node, spec)) return 'leave'
  const tolerations = tolerationsOf(template)
  if (untolerated(node, tolerations, ['NoExecute']).length > 0) return 'leave'
  return untolerated(node, tolerations, ['NoSchedule']).length > 0 ? 'stay' : 'run'
}

/**
 * The DaemonSet's template for one node: required node affinity with the node's name (instead of the template's, which the
 * node satisfies) binds the Pod to this node only.
 */
function templateForNode(template: PodTemplate, node: string, hash: string): PodTemplate {
  const { spec } = template
  if (!spec) return template
  const byName = { matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }
  const nodeAffinity = {
    ...spec.affinity?.nodeAffinity,
    requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [byName] },
  }
  return {
    ...template,
    metadata: { ...template.metadata, labels: { ...template.metadata?.labels, [hashLabel]: hash } },
    spec: { ...spec, affinity: { ...spec.affinity, nodeAffinity }, tolerations: tolerationsOf(template) },
  }
}
