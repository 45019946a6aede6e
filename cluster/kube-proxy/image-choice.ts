import type { V1DaemonSet } from '@kubernetes/client-node'
import { featuresOf, SUPPORTED_VERSIONS, VersionError } from '../../dataplane/kube-proxy/versions.ts'
import { genuineAnnotation } from '../../embedded/index.ts'
import type { Cluster } from '../driver.ts'
import { KubeProxyError, kubeProxy } from './kube-proxy-pods.ts'

/** Annotation of the DaemonSet while another kube-proxy version than the cluster's own runs: the image to return to. */
export const ownImageAnnotation = 'kube-service-labs/own-image'
/** The value that selects the version that the cluster was created with. */
export const OWN = 'own'

export interface ImageChoice {
  image: string
  /** The new value of the annotation; null removes it. */
  own: string | null
}

const imageIn = (daemonSet: V1DaemonSet) =>
  daemonSet.spec?.template.spec?.containers.find(({ name }) => name === kubeProxy.name)?.image ?? ''
const ownImageOf = (daemonSet: V1DaemonSet) =>
  daemonSet.metadata?.annotations?.[ownImageAnnotation] ?? imageIn(daemonSet)

/** Whether the DaemonSet runs another version than the cluster's own. */
export const isForeignImage = (daemonSet: V1DaemonSet): boolean => ownImageOf(daemonSet) !== imageIn(daemonSet)

/**
 * The image with which the DaemonSet runs a version such as `1.20` or `v1.20.15`, or with `own` the cluster's own; undefined
 * if it runs already. The minor version of the cluster's own image selects that image.
 * @throws KubeProxyError for a version that is not modelled, and if only the cluster's own can run
 */
export function chooseImage(cluster: Cluster, daemonSet: V1DaemonSet, version: string): ImageChoice | undefined {
  const own = ownImageOf(daemonSet)
  const image = version === OWN ? own : imageOfVersion(own, version)
  if (image === imageIn(daemonSet)) return undefined
  if (image === own) return { image, own: null }
  if (cluster.driver !== 'embedded')
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
  const colon = own.lastIndexOf(':')
  const tag = own.slice(colon + 1)
  if (/^v?\d+\.\d+$/.test(version)) return tag.startsWith(`v${minor}.`) ? own : `${own.slice(0, colon)}:v${minor}.0`
  return `${own.slice(0, colon)}:v${version.replace(/^v/, '')}`
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
