import { existsSync } from 'node:fs'
import { Agent, type AgentOptions, request as httpsRequest } from 'node:https'
import type * as k8s from '@kubernetes/client-node'
import type { ResponseContext as Answer, HttpLibrary, RequestContext } from '@kubernetes/client-node'
import { timeoutScale } from '../host/wait.ts'
import { guardWrite } from './context/write-guard.ts'
import { type Cluster, type KubeClient, notUp } from './driver.ts'
import { ResponseContext, wrapHttpLibrary } from './kubernetes.ts'

/** The largest list that a class's cluster answers with has some megabytes. */
const ANSWER_BYTES = 16 * 2 ** 20
const REQUEST_MS = 30_000

/**
 * HTTPS for an API server that is a stranger's: an answer has a limit of size and time, is not unpacked, and leads nowhere else (the
 * client's own library follows redirects, with our certificate, to any host that this machine reaches).
 */
const boundedHttp = (): HttpLibrary => wrapHttpLibrary({ send })

function send(context: RequestContext): Promise<Answer> {
  const body = context.getBody()
  const agent = context.getAgent()
  return new Promise((resolve, reject) => {
    const request = httpsRequest(context.getUrl(), {
      method: context.getHttpMethod(),
      headers: context.getHeaders(),
      ...(agent ? { agent } : {}),
    })
    const stop = (why: string) => request.destroy(new Error(why))
    const timer = setTimeout(() => stop('the API server did not answer in time'), REQUEST_MS * timeoutScale())
    request.on('error', reject)
    request.on('close', () => clearTimeout(timer))
    request.on('response', (response) => {
      const chunks: Buffer[] = []
      let size = 0
      response.on('data', (chunk: Buffer) => {
        size += chunk.length
        if (size > ANSWER_BYTES) stop(`the API server answered with more than ${ANSWER_BYTES / 2 ** 20} MiB`)
        else chunks.push(chunk)
      })
      response.on('error', reject)
      response.on('end', () => {
        const bytes = Buffer.concat(chunks)
        const headers = Object.entries(response.headers).map(([name, value]) => [name, String(value)])
        const content = { text: async () => bytes.toString('utf8'), binary: async () => bytes }
        resolve(new ResponseContext(response.statusCode ?? 0, Object.fromEntries(headers), content))
      })
    })
    request.end(typeof body === 'string' ? body : undefined)
  })
}

/** No request may wait longer than this for its whole answer: a paused machine accepts connections and says nothing. */
const answerMs = 30_000

/** The API server did not answer in time. */
class ApiDeadlineError extends Error {}

/** Has every API of a configuration send its requests with a deadline, and those that change somebody else's cluster through guardWrite. A `library` of the caller's sends them. */
async function sendThroughGuard(
  config: k8s.KubeConfig,
  cluster: Pick<Cluster, 'driver' | 'name'>,
  library?: k8s.HttpLibrary,
): Promise<void> {
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
  const httpApi = wrapHttpLibrary({ send: guarded(library ?? new IsomorphicFetchHttpLibrary()) })
  const configuration = createConfiguration({ baseServer, authMethods: { default: config }, httpApi })
  config.makeApiClient = (type) => new type(configuration)
}

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
 * is guarded (sendThroughGuard), whichever API sends it. Throws in one sentence where there is no kubeconfig.
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
 * server answers is bounded (boundedHttp).
 */
export async function strangersClient(
  cluster: Pick<Cluster, 'driver' | 'name'>,
  access: ClusterAccess,
): Promise<KubeClient> {
  const { KubeConfig } = await import('./kubernetes.ts')
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
