import type { Api } from '../../apiserver/api.ts'
import { type Pod, withConditions } from '../../controllers/resources.ts'

/**
 * Runs bound Pods in name only: phase Running, an address, the Ready condition; ends them when they
 * are deleted.
 */
export function startFakeKubelet(api: Api) {
  let lastAddress = 1
  let stopped = false
  let pending = 0

  function writeReady(pod: Pod, ready: boolean) {
    const { namespace, name } = pod.metadata
    const conditions = withConditions(pod.status?.conditions, [
      { type: 'Ready', status: ready ? 'True' : 'False' },
    ])
    const podIP =
      pod.status?.podIP ??
      (pod.spec.hostNetwork
        ? hostAddress(pod)
        : `10.244.${lastAddress >> 8}.${++lastAddress & 255}`)
    const status = { phase: 'Running', conditions, podIP, podIPs: [{ ip: podIP }] }
    api.patch('pods', namespace, name, { status }, 'status')
  }

  function stored(name: string): Pod {
    const pod = api.get<Pod>('pods', 'default', name)
    if (!pod) throw new Error(`Pod "${name}" does not exist`)
    return pod
  }

  function finish(pod: Pod) {
    api.delete('pods', pod.metadata.namespace, pod.metadata.name, { gracePeriodSeconds: 0 })
  }

  const kubelet = {
    /** From now on bound Pods become ready by themselves, or only when `setReady` is called. */
    autoReady: true,
    /** From now on Pods being deleted go by themselves, or only when `finish` is called. */
    autoFinish: true,
    setReady: (name: string, ready: boolean) => writeReady(stored(name), ready),
    /** The containers have ended: the Pod goes for good. */
    finish: (name: string) => finish(stored(name)),
    setPhase: (name: string, phase: string) =>
      api.patch('pods', 'default', name, { status: { phase } }, 'status'),
    /** True when it has written all that it was asked for. */
    isIdle: () => pending === 0,
    stop() {
      stopped = true
      end()
    },
  }

  const sync = (pod: Pod) => {
    if (pod.metadata.deletionTimestamp) {
      if (kubelet.autoFinish) finish(pod)
    } else if (kubelet.autoReady && pod.status?.phase === 'Pending') writeReady(pod, true)
    else if (!pod.status?.podIP) writeReady(pod, false)
  }

  const end = api.watch<Pod>('pods', (type, pod) => {
    if (type === 'DELETED' || !pod.spec.nodeName) return
    pending++
    setImmediate(() => {
      pending--
      const now = api.get<Pod>('pods', pod.metadata.namespace, pod.metadata.name)
      if (!stopped && now?.metadata.uid === pod.metadata.uid) sync(now)
    })
  })
  return kubelet
}

function hostAddress({ spec }: Pod): string {
  return spec.nodeName === 'k8s-guide-worker' ? '172.18.0.3' : '172.18.0.4'
}
