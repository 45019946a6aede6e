import type { V1DaemonSet } from '@kubernetes/client-node'
import {
  featuresOf,
  SUPPORTED_VERSIONS,
  VersionError,
} from '../../dataplane/kube-proxy/versions.ts'
import { genuineAnnotation } from '../../embedded/index.ts'
import { parseImageReference } from '../../host/image-reference.ts'
import type { Progress } from '../../host/progress.ts'
import { isMetWithin, scaledMs } from '../../host/wait.ts'
import type { Cluster } from '../driver.ts'
import type { KubeClient } from '../kube-client.ts'
import {
  ipvsError,
  KubeProxyError,
  kubeProxy,
  lastLogLine,
  listKubeProxyPods,
  readDaemonSet,
  readLog,
  restartAnnotation,
} from './kube-proxy-pods.ts'

/**
 * Annotation of the DaemonSet while another kube-proxy version than the cluster's own runs: the
 * image to return to.
 */
export const ownImageAnnotation = 'kube-service-labs/own-image'
/** The value that selects the version that the cluster was created with. */
export const OWN = 'own'

export interface ImageChoice {
  image: string
  /** The new value of the annotation; null removes it. */
  own: string | null
}

/** The image that the DaemonSet runs now. */
export const imageIn = (daemonSet: V1DaemonSet): string =>
  daemonSet.spec?.template.spec?.containers.find(({ name }) => name === kubeProxy.name)?.image ?? ''
const ownImageOf = (daemonSet: V1DaemonSet) =>
  daemonSet.metadata?.annotations?.[ownImageAnnotation] ?? imageIn(daemonSet)

/** Whether the DaemonSet runs another version than the cluster's own. */
export const isForeignImage = (daemonSet: V1DaemonSet): boolean =>
  ownImageOf(daemonSet) !== imageIn(daemonSet)

/**
 * The image with which the DaemonSet runs a version such as `1.20` or `v1.20.15`, or with `own` the
 * cluster's own; undefined if it runs already. The minor version of the cluster's own image selects
 * that image.
 * @throws KubeProxyError for a version that is not modelled, and if only the cluster's own can run
 */
export function chooseImage(
  cluster: Cluster,
  daemonSet: V1DaemonSet,
  version: string,
): ImageChoice | undefined {
  const own = ownImageOf(daemonSet)
  const image = version === OWN ? own : imageOfVersion(own, version)
  if (image === imageIn(daemonSet)) return undefined
  if (image === own) return { image, own: null }
  if (!cluster.capabilities.runsOldKubeProxies)
    throw new KubeProxyError(
      `KUBE_PROXY_VERSION="${version}" needs the embedded cluster: an old kube-proxy does not work with this cluster's API server. CLUSTER=embedded runs every version.`,
    )
  if (daemonSet.metadata?.annotations?.[genuineAnnotation] !== undefined)
    throw new KubeProxyError(
      `KUBE_PROXY_VERSION="${version}" is not available here: this cluster was started with the genuine program of one version (KUBE_PROXY=…). \`make down\` and \`make up\` without it.`,
    )
  return { image, own }
}

function imageOfVersion(own: string, version: string): string {
  const minor = minorOf(version)
  const { repository, tag = '' } = parseImageReference(own)
  if (/^v?\d+\.\d+$/.test(version))
    return tag.startsWith(`v${minor}.`) ? own : `${repository}:v${minor}.0`
  return `${repository}:v${version.replace(/^v/, '')}`
}

function minorOf(version: string): string {
  try {
    return featuresOf(version).version
  } catch (error) {
    if (!(error instanceof VersionError)) throw error
    throw new KubeProxyError(
      `KUBE_PROXY_VERSION="${version}" is not modelled: give one of ${SUPPORTED_VERSIONS.join(', ')}, or ${OWN} for the cluster's own.`,
    )
  }
}

/**
 * Restarts every kube-proxy as `kubectl rollout restart` does, by an annotation of the Pod
 * template, and with another image if one is chosen. Returns the restart's time stamp, which the
 * new Pods carry in an annotation.
 */
export async function restartKubeProxyPods(
  client: KubeClient,
  choice?: ImageChoice,
): Promise<string> {
  // Unlike kubectl's, the time stamp has milliseconds: otherwise a second restart within the same
  // second would change nothing.
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

const rolloutMs = 180_000

/**
 * Waits until every kube-proxy is new and available, and shows how far it is. `stamp` is that of
 * the restart.
 * @throws KubeProxyError when a new one crashes repeatedly (with the reason from its log), or when
 * the deadline has passed
 */
export async function awaitRollout(
  client: KubeClient,
  progress: Progress,
  stamp: string,
): Promise<void> {
  let updated = 0
  let counts = ''
  const isDone = await isMetWithin(rolloutMs, async () => {
    const { metadata, status } = await readDaemonSet(client)
    const isObserved = (status?.observedGeneration ?? 0) >= (metadata?.generation ?? 0)
    const desired = status?.desiredNumberScheduled ?? 0
    const shown = updated
    updated = isObserved ? (status?.updatedNumberScheduled ?? 0) : 0
    const available = status?.numberAvailable ?? 0
    if (isObserved && updated >= desired && available >= desired) return true
    if (updated > shown) progress.note(`${updated} of ${desired} kube-proxy Pods are new`)
    counts = `${updated} of ${desired} kube-proxy Pods were new and ${available} available`
    await explainCrash(client, stamp)
    return false
  })
  if (!isDone)
    throw new KubeProxyError(
      `Only ${counts} after ${scaledMs(rolloutMs) / 1000} s; see \`kubectl -n kube-system get pods -l ${kubeProxy.selector}\`.`,
    )
}

/**
 * Throws KubeProxyError with kube-proxy's log message if a Pod of this restart has ended more than
 * once. Older Pods may still fail because of a configuration that has been fixed since.
 */
export async function explainCrash(client: KubeClient, stamp: string): Promise<void> {
  const crashed = (await listKubeProxyPods(client)).find(
    ({ trouble, restarts, restartedAt }) =>
      restartedAt === stamp &&
      (trouble === 'CrashLoopBackOff' || (trouble !== undefined && restarts > 0)),
  )
  if (!crashed) return
  const log =
    (await readLog(client, crashed.pod)) || (await readLog(client, crashed.pod, { previous: true }))
  const complaint = ipvsError(log)
  const problem = `kube-proxy on ${crashed.node} crashes repeatedly (${crashed.trouble})`
  throw new KubeProxyError(
    complaint === undefined
      ? `${problem}. Its log ends with: ${lastLogLine(log)}. The node keeps its old rules; fix the ConfigMap, then \`make iptables\` or \`make ipvs\`.`
      : `${problem}, because the kernel lacks a feature that mode "ipvs" needs: ${complaint}. That node keeps its old rules and programs no change, and the other nodes are not restarted; \`make iptables\` repairs all of them.`,
  )
}
