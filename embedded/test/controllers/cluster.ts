// A cluster without machines: the real API and controllers, and a kubelet that only tells the API
// what Pods do.

import { afterEach, beforeEach } from 'vitest'
import { timeoutScale } from '../../../host/wait.ts'
import type { Api, KubeObject } from '../../apiserver/api.ts'
import { createClusterApi } from '../../apiserver/api.ts'
import { type ControllerOptions, startControllers } from '../../controllers/controllers.ts'
import type {
  Deployment,
  EndpointSliceObject,
  Event,
  NodeObject,
  Pod,
  ReplicaSet,
  ServiceObject,
} from '../../controllers/resources.ts'
import { startFakeKubelet } from './fake-kubelet.ts'

export type TestCluster = ReturnType<typeof startTestCluster>

export const controlPlane = 'k8s-guide-control-plane'
export const workers = ['k8s-guide-worker', 'k8s-guide-worker2']

export function createNode(
  api: Api,
  name: string,
  spec: Record<string, unknown> = {},
  labels: Record<string, string> = {},
): void {
  api.create<NodeObject>('nodes', undefined, {
    metadata: {
      name,
      labels: { 'kubernetes.io/hostname': name, 'kubernetes.io/os': 'linux', ...labels },
    },
    spec,
  })
  const conditions = [{ type: 'Ready', status: 'True', reason: 'KubeletReady' }]
  api.patch(
    'nodes',
    undefined,
    name,
    { status: { conditions, allocatable: { pods: '110' } } },
    'status',
  )
}

/** kind's three nodes, all controllers and a kubelet for every node. */
export function startTestCluster(options: ControllerOptions = {}) {
  const api = createClusterApi()
  const taint = { key: 'node-role.kubernetes.io/control-plane', effect: 'NoSchedule' }
  createNode(
    api,
    controlPlane,
    { taints: [taint] },
    { 'node-role.kubernetes.io/control-plane': '' },
  )
  for (const worker of workers) createNode(api, worker)
  const faults: unknown[] = []
  const kubelet = startFakeKubelet(api)
  const controllers = startControllers(api, { report: (error) => faults.push(error), ...options })
  const inDefault = <T extends KubeObject>(resource: string, labelSelector?: string) =>
    api.list<T>(resource, { namespace: 'default', labelSelector: labelSelector ?? null })

  function stored<T extends KubeObject>(resource: string, name: string): T {
    const object = api.get<T>(resource, 'default', name)
    if (!object) throw new Error(`${resource} "${name}" does not exist`)
    return object
  }

  /** Resolves when `holds` does (asked after every change); fails with `what` at the deadline. */
  async function until(what: string, holds: () => boolean) {
    const deadline = Date.now() + 15_000 * timeoutScale()
    while (!holds()) {
      if (faults.length > 0) throw faults[0]
      if (Date.now() > deadline) throw new Error(`timed out waiting until ${what}`)
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  /** Resolves when every controller and the kubelet have reacted to all changes. */
  async function settled() {
    // Watches are notified of a change in its microtask.
    await new Promise((resolve) => setImmediate(resolve))
    await until('the cluster has settled', () => controllers.isIdle() && kubelet.isIdle())
  }

  return {
    api,
    kubelet,
    until,
    settled,
    pods: (labelSelector?: string) => inDefault<Pod>('pods', labelSelector),
    deployment: (name: string) => stored<Deployment>('deployments', name),
    replicaSets: (name: string) =>
      inDefault<ReplicaSet>('replicasets').filter(
        ({ metadata }) => metadata.ownerReferences?.[0]?.name === name,
      ),
    slices: (service: string) =>
      inDefault<EndpointSliceObject>('endpointslices', `kubernetes.io/service-name=${service}`),
    service: (name: string) => stored<ServiceObject>('services', name),
    events: (reason: string) =>
      api.list<Event>('events').filter((event) => event.reason === reason),
    /** Unexpected errors: all but a StatusError. */
    faults,
    stop() {
      controllers.stop()
      kubelet.stop()
    },
  }
}

/** The cluster of the running test, in files that use `useTestCluster`. */
export let cluster: TestCluster

/** Starts a cluster for each test of a file. */
export function useTestCluster(): void {
  beforeEach(() => {
    cluster = startTestCluster()
  })
  afterEach(() => cluster.stop())
}
