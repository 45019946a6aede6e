import { existsSync } from 'node:fs'
import { Agent, type AgentOptions } from 'node:https'
import type * as k8s from '@kubernetes/client-node'
import type { Cluster } from './driver.ts'

/** The typed APIs that scripts and checks use. */
export interface KubeClient {
  config: k8s.KubeConfig
  core: k8s.CoreV1Api
  apps: k8s.AppsV1Api
  discovery: k8s.DiscoveryV1Api
}

/** Clients for a cluster from its own kubeconfig; the user's is never read. Throws in one sentence where there is none yet. */
export async function kubeClient(cluster: Pick<Cluster, 'kubeconfig' | 'name'>): Promise<KubeClient> {
  if (!existsSync(cluster.kubeconfig)) throw new Error(`The cluster "${cluster.name}" is not up: run \`make up\`.`)
  const { AppsV1Api, CoreV1Api, DiscoveryV1Api, KubeConfig } = await import('./kubernetes.ts')
  const config = new KubeConfig()
  config.loadFromFile(cluster.kubeconfig)
  keepConnections(config)
  return {
    config,
    core: config.makeApiClient(CoreV1Api),
    apps: config.makeApiClient(AppsV1Api),
    discovery: config.makeApiClient(DiscoveryV1Api),
  }
}

/** The client makes an agent, and so a TLS connection, for each request; asking a cluster all the time, one is enough. */
function keepConnections(config: k8s.KubeConfig): void {
  const authenticate = config.applySecurityAuthentication.bind(config)
  let kept: { agent: Agent; options: AgentOptions } | undefined
  config.applySecurityAuthentication = async (context) => {
    await authenticate(context)
    const fresh = context.getAgent()
    // A proxy's agent is another class.
    if (fresh?.constructor !== Agent) return
    const { options } = fresh as Agent
    if (!kept || !sameCredentials(kept.options, options))
      kept = { agent: new Agent({ ...options, keepAlive: true }), options }
    context.setAgent(kept.agent)
  }
}

const sameCredentials = (one: AgentOptions, other: AgentOptions) =>
  String(one.ca) === String(other.ca) &&
  String(one.cert) === String(other.cert) &&
  String(one.key) === String(other.key)
