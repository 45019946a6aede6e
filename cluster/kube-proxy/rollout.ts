import { setTimeout as pause } from 'node:timers/promises'
import type { V1DaemonSet } from '@kubernetes/client-node'
import type { Progress } from '../../host/progress.ts'
import { timeoutScale } from '../../host/wait.ts'
import type { KubeClient } from '../kube-client.ts'
import { type ImageChoice, ownImageAnnotation } from './image-choice.ts'
import {
  ipvsComplaint,
  KubeProxyError,
  kubeProxy,
  lastLogLine,
  listKubeProxyPods,
  readDaemonSet,
  readLog,
  restartAnnotation,
} from './kube-proxy-pods.ts'

/** Interval at which the rollout's state is read. */
const gapMs = 100

/**
 * Restarts every kube-proxy as `kubectl rollout restart` does, by an annotation of the Pod template, and with another image
 * if one is chosen. Returns the restart's time stamp, which the new Pods carry in an annotation.
 */
export async function restartKubeProxyPods(client: KubeClient, choice?: ImageChoice): Promise<string> {
  // Unlike kubectl's, the time stamp has milliseconds: otherwise a second restart within the same second would change
  // nothing.
  const stamp = new Date().toISOString()
  const template = { metadata: { annotations: { [restartAnnotation]: stamp } } }
  const containers = choice && [{ name: kubeProxy.name, image: choice.image }]
  const body = {
    ...(choice && { metadata: { annotations: { [ownImageAnnotation]: choice.own } } }),
    spec: { template: { ...template, ...(containers && { spec: { containers } }) } },
  }
  const { namespace, name } = kubeProxy
  await client.apps.patchNamespacedDaemonSet({ namespace, name, body }, client.strategicPatch)
  return stamp
}

const counts = ({ metadata, status }: V1DaemonSet) => ({
  observed: (status?.observedGeneration ?? 0) >= (metadata?.generation ?? 0),
  desired: status?.desiredNumberScheduled ?? 0,
  updated: status?.updatedNumberScheduled ?? 0,
  available: status?.numberAvailable ?? 0,
})

/**
 * Waits until every kube-proxy is new and available, and shows how far it is. `stamp` is that of the restart.
 * @throws KubeProxyError when a new one crashes repeatedly (with the reason from its log), or when the deadline has passed
 */
export async function awaitRollout(
  client: KubeClient,
  progress: Progress,
  stamp: string,
  deadlineMs = 180_000,
): Promise<void> {
  const end = Date.now() + deadlineMs * timeoutScale()
  let shown = ''
  for (;;) {
    const { observed, desired, updated, available } = counts(await readDaemonSet(client))
    if (observed && updated >= desired && available >= desired) return
    if (observed && `${updated}` !== shown) {
      shown = `${updated}`
      if (updated > 0) progress.note(`${updated} of ${desired} kube-proxy Pods are new`)
    }
    await explainCrash(client, stamp)
    if (Date.now() > end)
      throw new KubeProxyError(
        `Only ${updated} of ${desired} kube-proxy Pods were new and ${available} available after ${Math.round(deadlineMs / 1000)} s; see \`kubectl -n kube-system get pods -l ${kubeProxy.selector}\`.`,
      )
    await pause(gapMs)
  }
}

/**
 * Throws KubeProxyError with kube-proxy's log message if a Pod of this restart has ended more than once. Older Pods may still
 * fail because of a configuration that has been fixed since.
 */
export async function explainCrash(client: KubeClient, stamp: string): Promise<void> {
  const crashed = (await listKubeProxyPods(client)).find(
    ({ trouble, restarts, restartedAt }) =>
      restartedAt === stamp && (trouble === 'CrashLoopBackOff' || (trouble !== undefined && restarts > 0)),
  )
  if (!crashed) return
  const log = (await readLog(client, crashed.pod)) || (await readLog(client, crashed.pod, { previous: true }))
  const complaint = ipvsComplaint(log)
  const problem = `kube-proxy on ${crashed.node} crashes repeatedly (${crashed.trouble})`
  throw new KubeProxyError(
    complaint === undefined
      ? `${problem}. Its log ends with: ${lastLogLine(log)}. The node keeps its old rules; fix the ConfigMap, then \`make iptables\` or \`make ipvs\`.`
      : `${problem}, because the kernel lacks a feature that mode "ipvs" needs: ${complaint}. That node keeps its old rules and programs no change, and the other nodes are not restarted; \`make iptables\` repairs all of them.`,
  )
}
