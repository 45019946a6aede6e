import type * as k8s from '@kubernetes/client-node'
import type { KubeObject } from '../apiserver/api.ts'
import { sameJson } from '../apiserver/json.ts'
import { timestamp } from '../apiserver/object-lifecycle.ts'

/**
 * The JSON form of a client-node type: times are RFC 3339 strings, everything else is unchanged.
 */
export type AsJson<T> = T extends Date
  ? string
  : T extends (infer Item)[]
    ? AsJson<Item>[]
    : T extends object
      ? { [Field in keyof T]: AsJson<T[Field]> }
      : T

/** A kind with a specification, as the API stores it. */
type StoredKind<T extends { spec?: unknown; status?: unknown }> = KubeObject & {
  spec: AsJson<NonNullable<T['spec']>>
  status?: AsJson<NonNullable<T['status']>>
}

export type PodTemplate = AsJson<k8s.V1PodTemplateSpec>
export type Pod = StoredKind<k8s.V1Pod>
export type ReplicaSet = StoredKind<k8s.V1ReplicaSet>
export type Deployment = StoredKind<k8s.V1Deployment>
export type DaemonSet = StoredKind<k8s.V1DaemonSet>
export type Job = StoredKind<k8s.V1Job>
export type CronJob = StoredKind<k8s.V1CronJob>
export type ServiceObject = StoredKind<k8s.V1Service>
export type NodeObject = StoredKind<k8s.V1Node>
export type Event = KubeObject & Omit<AsJson<k8s.CoreV1Event>, 'apiVersion' | 'kind' | 'metadata'>
export type SliceEndpoint = AsJson<k8s.V1Endpoint>
/** A port as slices carry it: `name` is always set, empty for an unnamed port. */
export interface SlicePort {
  name: string
  port: number
  protocol: string
  appProtocol?: string
}
export type EndpointSliceObject = KubeObject & {
  addressType: string
  endpoints?: SliceEndpoint[]
  ports?: SlicePort[]
}
export type Endpoints = KubeObject & { subsets?: AsJson<k8s.V1EndpointSubset>[] }
export type ConfigMap = KubeObject & { data?: Record<string, string> }

// The conditions of Pods and nodes as controllers interpret them, by the rules of
// k8s.io/kubernetes/pkg/api/v1/pod and pkg/controller.

/** The kubelet last reported that the Pod, or its node, is Ready. */
export function hasReadyCondition({ status }: Pod | NodeObject): boolean {
  return (
    status?.conditions?.some(
      (condition) => condition.type === 'Ready' && condition.status === 'True',
    ) ?? false
  )
}

/** Succeeded or Failed: its containers have ended permanently. */
export function isTerminal(pod: Pod): boolean {
  return pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed'
}

export function isTerminating(pod: Pod): boolean {
  return pod.metadata.deletionTimestamp !== undefined
}

/** Counts towards a controller's replicas: neither ended nor being deleted. */
export function isActive(pod: Pod): boolean {
  return !isTerminal(pod) && !isTerminating(pod)
}

/** Kubernetes omits counts of 0 from a status (omitempty). */
export function countsAbove0<T extends Record<string, number>>(counts: T): Partial<T> {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0)) as Partial<T>
}

/** Compares lists of ranks; the first difference decides. */
export function compareRanks(
  left: readonly (number | string)[],
  right: readonly (number | string)[],
): number {
  const index = left.findIndex((rank, position) => rank !== right[position])
  if (index < 0) return 0
  return (left[index] ?? 0) < (right[index] ?? 0) ? -1 : 1
}

/** Oldest first; the name decides between objects of the same second. */
export function byCreation(
  { metadata: left }: KubeObject,
  { metadata: right }: KubeObject,
): number {
  return compareRanks([left.creationTimestamp, left.name], [right.creationTimestamp, right.name])
}

interface StatusCondition {
  type: string
  status: string
  reason?: string
  message?: string
  lastTransitionTime?: string
}

/**
 * An object's conditions after an owner reports `own`: equal ones keep their times, those of other
 * owners stay.
 */
export function withConditions<T extends StatusCondition>(
  before: readonly T[] = [],
  own: readonly T[],
): T[] {
  const stated = ({ status, reason, message }: StatusCondition) => ({ status, reason, message })
  const next = own.map((condition) => {
    const old = before.find(({ type }) => type === condition.type)
    if (old && sameJson(stated(old), stated(condition))) return old
    const isSteady = old?.status === condition.status
    return { ...condition, lastTransitionTime: (isSteady && old.lastTransitionTime) || timestamp() }
  })
  return [
    ...next,
    ...before.filter(({ type }) => !own.some((condition) => condition.type === type)),
  ]
}
