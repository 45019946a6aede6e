import { Agent, type AgentOptions } from 'node:https'
import type * as k8s from '@kubernetes/client-node'
import { timeoutScale } from '../host/wait.ts'
import { guardWrite } from './context/write-guard.ts'
import type { Cluster } from './driver.ts'

/** No request may wait longer than this for its whole answer: a paused machine accepts connections and says nothing. */
const answerMs = 30_000

/** The API server did not answer in time. */
export class ApiDeadlineError extends Error {}

/** The typed APIs that scripts and checks use. */
export interface KubeClient {
  config: k8s.KubeConfig
  core: k8s.CoreV1Api
  apps: k8s.AppsV1Api
  discovery: k8s.DiscoveryV1Api
}

/** A cluster as far as a client must know it. */
type ReachedCluster = Pick<Cluster, 'driver' | 'name' | 'kubeconfig'>

/**
 * Clients for a cluster from its own kubeconfig; the user's is never read. Every request has a deadline, and one that changes
 * somebody else's cluster is guarded (guardWrite), whichever API of this configuration sends it.
 */
export async function kubeClient(cluster: ReachedCluster): Promise<KubeClient> {
  const { AppsV1Api, CoreV1Api, DiscoveryV1Api, KubeConfig } = await import('./kubernetes.ts')
  const config = new KubeConfig()
  config.loadFromFile(cluster.kubeconfig)
  keepConnections(config)
  await sendThroughGuard(config, cluster)
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

async function sendThroughGuard(config: k8s.KubeConfig, cluster: ReachedCluster): Promise<void> {
  const {
    createConfiguration,
    HttpMethod,
    IsomorphicFetchHttpLibrary,
    RequestContext,
    ResponseContext,
    ServerConfiguration,
    wrapHttpLibrary,
  } = await import('./kubernetes.ts')

  /** Sends a request and takes its whole answer. Throws ApiDeadlineError when that takes too long. */
  const answered = async (library: k8s.HttpLibrary, request: k8s.RequestContext) => {
    const signal = AbortSignal.timeout(answerMs * timeoutScale())
    request.setSignal(signal)
    try {
      const { httpStatusCode, headers, body } = await library.send(request).toPromise()
      const bytes = await body.binary()
      const whole = { text: async () => bytes.toString('utf8'), binary: async () => bytes }
      return new ResponseContext(httpStatusCode, headers, whole)
    } catch (error) {
      if (!signal.aborted) throw error
      const { pathname } = new URL(request.getUrl())
      throw new ApiDeadlineError(
        `the API server gave no answer to ${request.getHttpMethod()} ${pathname} within ${Math.round((answerMs * timeoutScale()) / 1000)} s`,
      )
    }
  }

  const guarded = (library: k8s.HttpLibrary) => async (request: k8s.RequestContext) => {
    if (cluster.driver !== 'context') return answered(library, request)
    const url = request.getUrl()
    const read = async (path: string): Promise<unknown> => {
      const look = new RequestContext(new URL(path, url).href, HttpMethod.GET)
      await config.applySecurityAuthentication(look)
      const { httpStatusCode, body } = await answered(library, look)
      if (httpStatusCode === 404) return undefined
      if (httpStatusCode === 200) return JSON.parse(await body.text())
      throw new Error(`the API server answered ${httpStatusCode} to GET ${path}`)
    }
    const method = request.getHttpMethod().toString()
    const body = request.getBody()
    const text = typeof body === 'string' ? body : undefined
    request.setBody((await guardWrite(cluster, { method, url, body: text }, read)) ?? body)
    return answered(library, request)
  }

  const baseServer = new ServerConfiguration(config.getCurrentCluster()?.server ?? '', {})
  const httpApi = wrapHttpLibrary({ send: guarded(new IsomorphicFetchHttpLibrary()) })
  const configuration = createConfiguration({ baseServer, authMethods: { default: config }, httpApi })
  config.makeApiClient = (type) => new type(configuration)
}
