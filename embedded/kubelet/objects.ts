import { timestamp } from '../apiserver/object-lifecycle.ts'
import type { Pod } from '../controllers/resources.ts'

export type { ConfigMap, Node, Pod } from '../controllers/resources.ts'
export type Container = Pod['spec']['containers'][number]
export type PodStatus = NonNullable<Pod['status']>
export type ContainerStatus = NonNullable<PodStatus['containerStatuses']>[number]
export type ContainerState = NonNullable<ContainerStatus['state']>
export type Probe = NonNullable<Container['readinessProbe']>
export type Volume = NonNullable<Pod['spec']['volumes']>[number]
export type KeyToPath = NonNullable<NonNullable<Volume['configMap']>['items']>[number]
export type LifecycleHandler = NonNullable<NonNullable<Container['lifecycle']>['preStop']>

/** A Secret as stored: values in base64. */
export type Secret = import('../apiserver/api.ts').KubeObject & { data?: Record<string, string> }

export interface PodView {
  init: readonly ContainerStatus[]
  containers: readonly ContainerStatus[]
  ephemeral?: readonly ContainerStatus[]
  podIP: string | undefined
  hostIP: string
  startTime: string
  /** The Pod has its network namespace. */
  sandbox: boolean
}

type Condition = NonNullable<PodStatus['conditions']>[number]
type Verdict = { type: string; ok: boolean; reason?: string; message?: string }

const names = (views: readonly ContainerStatus[]) => `[${views.map(({ name }) => name).join(' ')}]`
const succeeded = ({ terminated }: ContainerState = {}) => terminated?.exitCode === 0

/** The phase of a Pod (getPhase of pkg/kubelet/kubelet_pods.go). */
export function podPhase(pod: Pod, { init, containers }: PodView): 'Pending' | 'Running' | 'Succeeded' | 'Failed' {
  const policy = pod.spec.restartPolicy ?? 'Always'
  const sidecar = (name: string) =>
    pod.spec.initContainers?.find((one) => one.name === name)?.restartPolicy === 'Always'
  const open = init.filter((view) => (sidecar(view.name) ? !view.started : !succeeded(view.state)))
  if (policy === 'Never' && open.some(({ state }) => state?.terminated)) return 'Failed'
  if (open.length > 0) return 'Pending'
  if (containers.some(({ state, lastState }) => state?.waiting && !lastState?.terminated)) return 'Pending'
  if (containers.some(({ state }) => !state?.terminated) || policy === 'Always') return 'Running'
  if (containers.every(({ state }) => succeeded(state))) return 'Succeeded'
  return policy === 'Never' ? 'Failed' : 'Running'
}

function verdicts(pod: Pod, view: PodView, phase: string, present: readonly Condition[]): Verdict[] {
  const waitingInit = view.init.filter(({ state, ready }) => !ready && !succeeded(state))
  const unready = view.containers.filter(({ ready }) => !ready)
  const over = phase === 'Succeeded' || phase === 'Failed'
  const unreadyWhy = over
    ? { reason: phase === 'Failed' ? 'PodFailed' : 'PodCompleted' }
    : { reason: 'ContainersNotReady', message: `containers with unready status: ${names(unready)}` }
  const containersReady: Verdict = {
    type: 'ContainersReady',
    ok: !over && unready.length === 0,
    ...((over || unready.length > 0) && unreadyWhy),
  }
  const gates = (pod.spec.readinessGates ?? []).filter(
    ({ conditionType }) => present.find(({ type }) => type === conditionType)?.status !== 'True',
  )
  const gateWhy = {
    reason: 'ReadinessGatesNotReady',
    message: gates
      .map(({ conditionType }) => `corresponding condition of pod readiness gate "${conditionType}" does not exist.`)
      .join(', '),
  }
  return [
    { type: 'PodReadyToStartContainers', ok: view.sandbox },
    {
      type: 'Initialized',
      ok: waitingInit.length === 0 || phase === 'Succeeded',
      ...(waitingInit.length > 0 && {
        reason: 'ContainersNotInitialized',
        message: `containers with incomplete status: ${names(waitingInit)}`,
      }),
    },
    containersReady.ok && gates.length > 0
      ? { type: 'Ready', ok: false, ...gateWhy }
      : { ...containersReady, type: 'Ready' },
    containersReady,
    { type: 'PodScheduled', ok: true },
  ]
}

/**
 * A Pod's status as the kubelet publishes it; conditions of other owners and the times of unchanged ones are
 * kept.
 */
export function podStatus(pod: Pod, view: PodView, now = timestamp()): PodStatus {
  const phase = podPhase(pod, view)
  const before = pod.status?.conditions ?? []
  const own = verdicts(pod, view, phase, before).map(({ type, ok, reason, message }): Condition => {
    const status = ok ? 'True' : 'False'
    const old = before.find((condition) => condition.type === type)
    const lastTransitionTime = old?.status === status ? (old.lastTransitionTime ?? now) : now
    return {
      type,
      status,
      lastTransitionTime,
      ...(reason !== undefined && { reason }),
      ...(message !== undefined && { message }),
    }
  })
  const foreign = before.filter(({ type }) => !own.some((condition) => condition.type === type))
  return {
    ...(pod.status?.qosClass !== undefined && { qosClass: pod.status.qosClass }),
    phase,
    conditions: [...own, ...foreign],
    hostIP: view.hostIP,
    hostIPs: [{ ip: view.hostIP }],
    ...(view.podIP !== undefined && { podIP: view.podIP, podIPs: [{ ip: view.podIP }] }),
    startTime: view.startTime,
    ...(view.init.length > 0 && { initContainerStatuses: [...view.init] }),
    containerStatuses: [...view.containers],
    ...(view.ephemeral?.length && { ephemeralContainerStatuses: [...view.ephemeral] }),
  }
}
