import { setTimeout as pause } from 'node:timers/promises'
import type { V1DaemonSet } from '@kubernetes/client-node'
import type { Progress } from '../driver.ts'
import type { KubeClient } from '../kube-client.ts'
import { timeoutScale } from '../wait.ts'
import { KubeProxyError, kubeProxy, lastWords, listAgents, readDaemonSet, readLog } from './agents.ts'

/** Between two looks at the rollout. */
const gapMs = 250

/** Restarts every kube-proxy as `kubectl rollout restart` does, by an annotation of the Pod template. */
export async function restartAgents({ apps }: KubeClient, now = new Date()): Promise<void> {
  const { PatchStrategy, setHeaderOptions } = await import('@kubernetes/client-node')
  const annotations = { 'kubectl.kubernetes.io/restartedAt': now.toISOString().replace(/\.\d+Z$/, 'Z') }
  const body = { spec: { template: { metadata: { annotations } } } }
  await apps.patchNamespacedDaemonSet(
    { namespace: kubeProxy.namespace, name: kubeProxy.name, body },
    setHeaderOptions('Content-Type', PatchStrategy.StrategicMergePatch),
  )
}

const counts = ({ metadata, status }: V1DaemonSet) => ({
  observed: (status?.observedGeneration ?? 0) >= (metadata?.generation ?? 0),
  desired: status?.desiredNumberScheduled ?? 0,
  updated: status?.updatedNumberScheduled ?? 0,
  available: status?.numberAvailable ?? 0,
})

/**
 * Waits until every kube-proxy is new and available, and shows how far it is.
 * @throws KubeProxyError when one ends again and again (with the reason from its log), or when the deadline passed
 */
export async function awaitRollout(client: KubeClient, progress: Progress, deadlineMs = 180_000): Promise<void> {
  const end = Date.now() + deadlineMs * timeoutScale()
  let shown = ''
  for (;;) {
    const { observed, desired, updated, available } = counts(await readDaemonSet(client))
    if (observed && updated >= desired && available >= desired) return
    if (observed && `${updated}` !== shown) {
      shown = `${updated}`
      if (updated > 0) progress.note(`${updated} of ${desired} kube-proxies are new`)
    }
    await explainCrash(client)
    if (Date.now() > end)
      throw new KubeProxyError(
        `Only ${updated} of ${desired} kube-proxies were new and ${available} available after ${Math.round(deadlineMs / 1000)} s; see \`kubectl -n kube-system get pods -l ${kubeProxy.selector}\`.`,
      )
    await pause(gapMs)
  }
}

/** Throws with kube-proxy's own words when one of them has ended more than once. */
async function explainCrash(client: KubeClient): Promise<void> {
  const fallen = (await listAgents(client)).find(({ trouble, restarts }) =>
    trouble === 'CrashLoopBackOff' ? true : trouble !== undefined && restarts > 0,
  )
  if (!fallen) return
  const log = (await readLog(client, fallen.pod)) || (await readLog(client, fallen.pod, { previous: true }))
  throw new KubeProxyError(
    `kube-proxy on ${fallen.node} ends at once, again and again (${fallen.trouble}). Its log says: ${lastWords(log)}. The node keeps its old rules; mend the ConfigMap, then \`make iptables\` or \`make ipvs\`.`,
  )
}
