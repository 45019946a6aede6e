import { isKubeProxyPod, kubeProxy, kubeProxyPods } from '../cluster/kube-proxy/kube-proxy-pods.ts'
import { likelyClusterCIDR } from '../dataplane/kube-proxy/cluster-config.ts'
import { defaultConfig, type KubeProxyConfig, parseKubeProxyConfiguration } from '../dataplane/kube-proxy/config.ts'
import type { ClusterObjects } from '../dataplane/objects.ts'
import type { ApiObject } from './api-object.ts'
import { Trouble } from './failure.ts'

const KUBE_PROXY = /^(?:Using|Using the) (\w+) Proxier/i

/**
 * The mode of a running kube-proxy: its own /proxyMode, else the last line of its log that names a proxier (`Using ipvs
 * Proxier`, all versions). Undefined when it says nothing.
 */
export function modeInForce(proxyMode: string | undefined, log: string | undefined): string | undefined {
  const said = proxyMode?.trim()
  if (said) return said
  const modes = (log ?? '').split('\n').flatMap((line) => {
    const message = line.slice(line.indexOf('] ') + 2).replace(/^"/, '')
    return KUBE_PROXY.exec(message)?.[1] ?? []
  })
  return modes.at(-1)?.toLowerCase()
}

/**
 * kube-proxy's version on a node: the image tag of its Pod in service, else that of one which terminates or has ended (it wrote what
 * the node holds), else what the Node says. Throws Trouble when none does.
 */
export function kubeProxyVersionOn(items: readonly ApiObject[], node: string): string {
  const pods = [...kubeProxyPods(items), ...items.filter(isKubeProxyPod)]
  const pod = pods.find((candidate) => candidate.spec?.nodeName === node)
  for (const { image } of pod?.spec?.containers ?? []) {
    const tag = /:(v\d+\.\d+[^@:]*)/.exec(image ?? '')?.[1]
    if (tag) return tag
  }
  const { kubeProxyVersion, kubeletVersion } =
    items.find(({ kind, metadata }) => kind === 'Node' && metadata.name === node)?.status?.nodeInfo ?? {}
  const version = kubeProxyVersion || kubeletVersion
  if (!version) throw new Trouble(`the version of kube-proxy on ${node} is not known`)
  return version
}

/**
 * The configuration of kube-proxy's ConfigMap. A capture without it is read with kube-proxy's defaults and the Pod range
 * that the controller manager was started with, else the one that the nodes suggest. Throws ConfigError when kube-proxy would refuse it.
 */
export function kubeProxyConfigOf(items: readonly ApiObject[], objects: () => ClusterObjects): KubeProxyConfig {
  const map = items.find(
    ({ kind, metadata }) =>
      kind === 'ConfigMap' && metadata.namespace === kubeProxy.namespace && metadata.name === kubeProxy.name,
  )
  const text = map?.data?.['config.conf']
  if (text !== undefined) return parsedOnce(text)
  const { features, clusterCIDR } = controllerManagerFlags(items)
  return {
    ...defaultConfig(),
    clusterCIDR: clusterCIDR || likelyClusterCIDR(objects()),
    dualStack: /\bIPv6DualStack=true\b/.test(features),
  }
}

const parsed = new Map<string, KubeProxyConfig>()
const PARSED_KEPT = 16

/** YAML is the dearest part of a capture to read, and nearly every capture of a lab holds the same. */
function parsedOnce(text: string): KubeProxyConfig {
  const found = parsed.get(text)
  if (found) return found
  const config = parseKubeProxyConfiguration(text)
  if (parsed.size >= PARSED_KEPT) parsed.clear()
  parsed.set(text, config)
  return config
}

function controllerManagerFlags(items: readonly ApiObject[]): { features: string; clusterCIDR: string } {
  const pod = items.find(
    ({ kind, metadata }) => kind === 'Pod' && metadata.labels?.component === 'kube-controller-manager',
  )
  const words = (pod?.spec?.containers ?? []).flatMap(({ command, args }) => [...(command ?? []), ...(args ?? [])])
  const flag = (name: string) => words.find((word) => word.startsWith(`--${name}=`))?.slice(name.length + 3) ?? ''
  return { features: flag('feature-gates'), clusterCIDR: flag('cluster-cidr') }
}
