import { withConditions } from '../controllers/resources.ts'
import type { ContainerState, ContainerStatus, Pod, PodStatus } from './objects.ts'

/** What a Pod's status is computed from. */
export interface PodView {
  init: readonly ContainerStatus[]
  containers: readonly ContainerStatus[]
  ephemeral: readonly ContainerStatus[]
  podIP: string | undefined
  hostIP: string
  startTime: string
  /** The Pod has its network namespace. */
  sandbox: boolean
}

type PodCondition = NonNullable<PodStatus['conditions']>[number]

const names = (views: readonly ContainerStatus[]) => `[${views.map(({ name }) => name).join(' ')}]`
const succeeded = ({ terminated }: ContainerState = {}) => terminated?.exitCode === 0

/** The phase of a Pod (getPhase of pkg/kubelet/kubelet_pods.go). */
export function podPhase(
  pod: Pod,
  { init, containers }: PodView,
): 'Pending' | 'Running' | 'Succeeded' | 'Failed' {
  const policy = pod.spec.restartPolicy ?? 'Always'
  const isSidecar = (name: string) =>
    pod.spec.initContainers?.find((one) => one.name === name)?.restartPolicy === 'Always'
  const open = init.filter(({ name, started, state }) =>
    isSidecar(name) ? !started : !succeeded(state),
  )
  if (policy === 'Never' && open.some(({ state }) => state?.terminated)) return 'Failed'
  if (open.length > 0) return 'Pending'
  if (containers.some(({ state, lastState }) => state?.waiting && !lastState?.terminated))
    return 'Pending'
  if (containers.some(({ state }) => !state?.terminated) || policy === 'Always') return 'Running'
  if (containers.every(({ state }) => succeeded(state))) return 'Succeeded'
  return policy === 'Never' ? 'Failed' : 'Running'
}

/** The conditions that the kubelet owns: each True, or False with the reason. */
function ownConditions(view: PodView, phase: string): PodCondition[] {
  const waiting = view.init.filter(({ state, ready }) => !ready && !succeeded(state))
  const unready = view.containers.filter(({ ready }) => !ready)
  const status = (isTrue: boolean) => (isTrue ? 'True' : 'False')
  const incomplete = {
    reason: 'ContainersNotInitialized',
    message: `containers with incomplete status: ${names(waiting)}`,
  }
  const notReady = {
    reason: 'ContainersNotReady',
    message: `containers with unready status: ${names(unready)}`,
  }
  const over = phase === 'Succeeded' ? 'PodCompleted' : phase === 'Failed' ? 'PodFailed' : undefined
  const why = over ? { reason: over } : unready.length > 0 ? notReady : undefined
  return [
    { type: 'PodReadyToStartContainers', status: status(view.sandbox) },
    {
      type: 'Initialized',
      status: status(waiting.length === 0),
      ...(waiting.length > 0 && incomplete),
    },
    { type: 'Ready', status: status(!why), ...why },
    { type: 'ContainersReady', status: status(!why), ...why },
    { type: 'PodScheduled', status: 'True' },
  ]
}

/**
 * A Pod's status as the kubelet publishes it; conditions of other owners and the times of unchanged
 * ones are kept.
 */
export function podStatus(pod: Pod, view: PodView): PodStatus {
  const { init, containers, ephemeral, podIP, hostIP, startTime } = view
  const phase = podPhase(pod, view)
  const filled = (statuses: readonly ContainerStatus[]) =>
    statuses.length > 0 ? [...statuses] : undefined
  return {
    phase,
    conditions: withConditions(pod.status?.conditions, ownConditions(view, phase)),
    hostIP,
    hostIPs: [{ ip: hostIP }],
    podIP,
    podIPs: podIP === undefined ? undefined : [{ ip: podIP }],
    startTime,
    initContainerStatuses: filled(init),
    containerStatuses: [...containers],
    ephemeralContainerStatuses: filled(ephemeral),
  }
}
