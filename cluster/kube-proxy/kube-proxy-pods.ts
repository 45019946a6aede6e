import type { V1ContainerStatus, V1DaemonSet, V1Pod } from '@kubernetes/client-node'
import { Trouble } from '../../host/trouble.ts'
import { type KubeClient, unlessCode } from '../kube-client.ts'

/** The namespace and name of kube-proxy in kubeadm, kind and the embedded cluster. */
export const kubeProxy = {
  namespace: 'kube-system',
  name: 'kube-proxy',
  selector: 'k8s-app=kube-proxy',
} as const

/** The annotation that a restart writes into the Pod template, and so into every Pod. */
export const restartAnnotation = 'kubectl.kubernetes.io/restartedAt'

/**
 * kube-proxy was not found or cannot be used as it is. The message is one sentence for the user.
 */
export class KubeProxyError extends Trouble {}

const missingKind = (kind: string) =>
  new KubeProxyError(
    `This cluster has no ${kind} "kube-proxy" in kube-system: its mode is not set by kubeadm.`,
  )

/** The DaemonSet of kube-proxy. Throws KubeProxyError if there is none. */
export async function readDaemonSet({ apps }: KubeClient): Promise<V1DaemonSet> {
  const { namespace, name } = kubeProxy
  const daemonSet = await unlessCode(404, apps.readNamespacedDaemonSet({ namespace, name }))
  if (!daemonSet) throw missingKind('DaemonSet')
  return daemonSet
}

/** The text of config.conf in kube-proxy's ConfigMap, and the version it was read at. */
export async function readConfigConf({
  core,
}: KubeClient): Promise<{ text: string; resourceVersion: string }> {
  const { namespace, name } = kubeProxy
  const map = await unlessCode(404, core.readNamespacedConfigMap({ namespace, name }))
  if (!map) throw missingKind('ConfigMap')
  const text = map.data?.['config.conf']
  if (text === undefined)
    throw new KubeProxyError('The ConfigMap "kube-proxy" in kube-system has no "config.conf".')
  return { text, resourceVersion: map.metadata?.resourceVersion ?? '' }
}

/**
 * Sends the resourceVersion that was read, so that the API server rejects the patch if another
 * process has changed the ConfigMap since.
 */
export async function writeConfigConf(
  client: KubeClient,
  text: string,
  resourceVersion: string,
): Promise<void> {
  const { namespace, name } = kubeProxy
  const body = { metadata: { resourceVersion }, data: { 'config.conf': text } }
  await client.core.patchNamespacedConfigMap({ namespace, name, body }, client.mergePatch)
}

/** The fields of an API object that identify a kube-proxy Pod in service. */
interface PodFacts {
  kind?: string | undefined
  metadata?: {
    name?: string | undefined
    namespace?: string | undefined
    labels?: Record<string, string> | undefined
    deletionTimestamp?: unknown
  }
  status?: { phase?: string | undefined } | undefined
}

/** True for a kube-proxy Pod in any state, among API objects that carry their kind. */
export const isKubeProxyPod = ({ kind, metadata }: PodFacts): boolean =>
  kind === 'Pod' &&
  metadata?.namespace === kubeProxy.namespace &&
  metadata.labels?.['k8s-app'] === kubeProxy.name

/**
 * False for a Pod that terminates, was evicted or has ended: it does not run on its node, or will
 * soon stop.
 */
const isInService = ({ metadata, status }: PodFacts): boolean =>
  !metadata?.deletionTimestamp && status?.phase !== 'Failed' && status?.phase !== 'Succeeded'

/** The kube-proxy Pods among API objects, without those that terminate or have ended. */
export const kubeProxyPods = <T extends PodFacts>(items: readonly T[]): T[] =>
  items.filter((item) => isKubeProxyPod(item) && isInService(item))

/** Every kube-proxy that is bound to a node and in service, by node. */
export async function listKubeProxyPods({ core }: KubeClient): Promise<KubeProxyPod[]> {
  const { items } = await core.listNamespacedPod({
    namespace: kubeProxy.namespace,
    labelSelector: kubeProxy.selector,
  })
  const pods = items.filter((pod) => isInService(pod) && pod.spec?.nodeName).map(podFactsOf)
  return pods.sort((a, b) => (a.node < b.node ? -1 : 1))
}

/** The kube-proxy Pod of one node. */
export type KubeProxyPod = ReturnType<typeof podFactsOf>

function podFactsOf(pod: V1Pod) {
  const status = pod.status?.containerStatuses?.[0]
  return {
    node: pod.spec?.nodeName ?? '',
    pod: pod.metadata?.name ?? '',
    image: pod.spec?.containers[0]?.image ?? '',
    restarts: status?.restartCount ?? 0,
    startedAt: status?.state?.running?.startedAt?.toISOString?.(),
    /** The restart that created this Pod: the annotation that `kubectl rollout restart` writes. */
    restartedAt: pod.metadata?.annotations?.[restartAnnotation],
    trouble: troubleOf(status),
  }
}

/**
 * A container that is being created has no problem; one that ended with an error or waits for
 * another reason has one.
 */
function troubleOf(status: V1ContainerStatus | undefined): string | undefined {
  const state = status?.state
  if (state?.terminated && state.terminated.exitCode !== 0)
    return `${state.terminated.reason ?? 'Error'} (exit code ${state.terminated.exitCode})`
  const waiting = state?.waiting?.reason
  return waiting === undefined || waiting === 'ContainerCreating' || waiting === 'PodInitializing'
    ? undefined
    : waiting
}

/**
 * The log of one kube-proxy; empty if there is none. `previous` selects the container before the
 * last restart.
 */
export async function readLog(
  { core }: KubeClient,
  pod: string,
  options: { previous?: boolean; tailLines?: number; limitBytes?: number } = {},
): Promise<string> {
  try {
    return (
      (await core.readNamespacedPodLog({
        namespace: kubeProxy.namespace,
        name: pod,
        ...options,
      })) ?? ''
    )
  } catch (error) {
    const { code } = error as { code?: number }
    if (code === 400 || code === 404) return ''
    throw error
  }
}

/**
 * The log line that names the proxier that runs: `Using ipvs Proxier`, with or without quotes and a
 * full stop.
 */
export function proxierLine(log: string): string | undefined {
  return log.split('\n').findLast((line) => /Using \S+ Proxier/.test(line))
}

/**
 * kube-proxy's log message if its kernel or configuration does not support IPVS mode; undefined if
 * it does.
 */
export function ipvsError(log: string): string | undefined {
  const line = log
    .split('\n')
    .findLast((one) => /can't use the IPVS proxier|IPVS proxier will not be used/i.test(one))
  return line?.replace(/^[A-Z]\d{4} \S+ +\d+ /, '').trim()
}

/** The last error in kube-proxy's log; undefined if there is none. */
export const lastErrorLine = (log: string): string | undefined =>
  log
    .trimEnd()
    .split('\n')
    .findLast((line) => /^[EF]\d{4} |^(Error|error|unable):?/i.test(line))

/** The log line before kube-proxy ended: its last error, or its last line. */
export const lastLogLine = (log: string): string =>
  lastErrorLine(log) ?? log.trimEnd().split('\n').at(-1) ?? ''
