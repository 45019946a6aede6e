import { existsSync } from 'node:fs'
import { Agent, type AgentOptions } from 'node:https'
import type * as k8s from '@kubernetes/client-node'
import { type Cluster, type KubeClient, notUp } from './driver.ts'
import { sendThroughGuard } from './guarded-http.ts'

export type { KubeClient }

/** All that is kept of a stranger's kubeconfig: where the server is, how to know it, and how to be known there. */
export interface ClusterAccess {
  /** An https address without a user, query or fragment, and without a slash at its end. */
  server: string
  /** What follows is as the kubeconfig has it: certificates and keys are PEM in base64. */
  caData?: string
  tlsServerName?: string
  /** The connection is not proved to reach that server. What this endangers is the learner's own: the token, and the grade. */
  skipTLSVerify: boolean
  token?: string
  certData?: string
  keyData?: string
}

/** A cluster as far as a client must know it. */
type ReachedCluster = Pick<Cluster, 'driver' | 'name' | 'kubeconfig' | 'unexpectedEnd'>

/** Clients for a cluster, from its own kubeconfig where it has no client yet; the user's is never read. */
export async function kubeClient(cluster: ReachedCluster & Pick<Cluster, 'client'>): Promise<KubeClient> {
  return cluster.client ? cluster.client() : clientFromFile(cluster)
}

/**
 * Clients for a cluster, from its own kubeconfig. Every request has a deadline, and one that changes somebody else's cluster
 * is guarded (guarded-http.ts), whichever API sends it. Throws in one sentence where there is no kubeconfig.
 */
export async function clientFromFile(cluster: ReachedCluster): Promise<KubeClient> {
  if (!existsSync(cluster.kubeconfig)) throw notUp(cluster)
  const { KubeConfig } = await import('./kubernetes.ts')
  const config = new KubeConfig()
  config.loadFromFile(cluster.kubeconfig)
  keepConnections(config)
  await sendThroughGuard(config, cluster)
  return clientsOf(config)
}

/**
 * Clients for a cluster of somebody else, from what its kubeconfig says and no file. Requests are guarded as above, and whatever its
 * server answers is bounded (bounded-http.ts).
 */
export async function strangersClient(
  cluster: Pick<Cluster, 'driver' | 'name'>,
  access: ClusterAccess,
): Promise<KubeClient> {
  const [{ KubeConfig }, { boundedHttp }] = await Promise.all([import('./kubernetes.ts'), import('./bounded-http.ts')])
  const { server, caData, tlsServerName, skipTLSVerify, token, certData, keyData } = access
  const config = new KubeConfig()
  config.loadFromClusterAndUser(
    { name: 'cluster', server, skipTLSVerify, ...(caData && { caData }), ...(tlsServerName && { tlsServerName }) },
    { name: 'user', ...(token && { token }), ...(certData && { certData }), ...(keyData && { keyData }) },
  )
  keepConnections(config)
  await sendThroughGuard(config, cluster, boundedHttp())
  return clientsOf(config)
}

async function clientsOf(config: k8s.KubeConfig): Promise<KubeClient> {
  const { AppsV1Api, CoreV1Api, DiscoveryV1Api } = await import('./kubernetes.ts')
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
