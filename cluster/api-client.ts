import { Agent, type AgentOptions, request as httpsRequest } from 'node:https'
import type { HttpLibrary } from '@kubernetes/client-node'
import { timeoutScale } from '../host/wait.ts'
import { guardWrite } from './context/write-guard.ts'
import type { Cluster, KubeClient } from './driver.ts'
import {
  AppsV1Api,
  CoreV1Api,
  createConfiguration,
  DiscoveryV1Api,
  HttpMethod,
  IsomorphicFetchHttpLibrary,
  KubeConfig,
  PatchStrategy,
  RequestContext,
  ResponseContext,
  ServerConfiguration,
  setHeaderOptions,
  wrapHttpLibrary,
} from './kubernetes.ts'

/** The largest list of a learner's cluster has a few megabytes. */
const ANSWER_BYTES = 16 * 2 ** 20
const REQUEST_MS = 30_000

/**
 * HTTPS to the API server of a learner: answers are limited in size and time, are not decompressed, and redirects are not
 * followed (the client's own library follows them, with our certificate, to any host that this machine reaches).
 */
const boundedHttp = (): HttpLibrary => wrapHttpLibrary({ send })

function send(context: RequestContext): Promise<ResponseContext> {
  const body = context.getBody()
  const agent = context.getAgent()
  return new Promise((resolve, reject) => {
    const request = httpsRequest(context.getUrl(), {
      method: context.getHttpMethod(),
      headers: context.getHeaders(),
      ...(agent ? { agent } : {}),
    })
    const stop = (why: string) => request.destroy(new Error(why))
    const timer = setTimeout(() => stop('the API server did not respond in time'), REQUEST_MS * timeoutScale())
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

/** Timeout of a request including its answer: a paused machine accepts connections and sends nothing. */
const answerMs = 30_000

/** The API server did not respond in time. */
class ApiDeadlineError extends Error {}

/**
 * Makes every API of a configuration send its requests with a deadline, and those that change a cluster that is not ours
 * through guardWrite. `library` replaces the HTTP library.
 */
function sendThroughGuard(
  config: KubeConfig,
  cluster: Pick<Cluster, 'driver' | 'name'>,
  library: HttpLibrary = new IsomorphicFetchHttpLibrary(),
): void {
  /** Sends a request and reads the whole answer. Throws ApiDeadlineError when that takes too long. */
  const answered = async (request: RequestContext) => {
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

  const guarded = async (request: RequestContext) => {
    if (cluster.driver !== 'context') return answered(request)
    const url = request.getUrl()
    const read = async (path: string): Promise<unknown> => {
      const get = new RequestContext(new URL(path, url).href, HttpMethod.GET)
      await config.applySecurityAuthentication(get)
      const { httpStatusCode, body } = await answered(get)
      if (httpStatusCode === 404) return undefined
      if (httpStatusCode === 200) return JSON.parse(await body.text())
      throw new Error(`the API server answered ${httpStatusCode} to GET ${path}`)
    }
    const method = request.getHttpMethod().toString()
    const body = request.getBody()
    const text = typeof body === 'string' ? body : undefined
    request.setBody((await guardWrite(cluster, { method, url, body: text }, read)) ?? body)
    return answered(request)
  }

  const baseServer = new ServerConfiguration(config.getCurrentCluster()?.server ?? '', {})
  const httpApi = wrapHttpLibrary({ send: guarded })
  const configuration = createConfiguration({ baseServer, authMethods: { default: config }, httpApi })
  config.makeApiClient = (type) => new type(configuration)
}

/**
 * The parts of a learner's kubeconfig that are kept: the server's address, how to verify the server, and the credentials.
 */
export interface ClusterAccess {
  /** An https address without a user, query or fragment, and without a slash at its end. */
  server: string
  /** This and the following fields are as in the kubeconfig: certificates and keys are PEM in base64. */
  caData?: string
  tlsServerName?: string
  /** The server's certificate is not verified. The risk is the learner's: the token, and the grade. */
  skipTLSVerify: boolean
  token?: string
  certData?: string
  keyData?: string
}

/**
 * Clients for a cluster, from its own kubeconfig. Every request has a deadline, and one that changes a cluster that is not
 * ours is guarded (sendThroughGuard), for every API.
 */
export function clientFromFile(cluster: Pick<Cluster, 'driver' | 'name' | 'kubeconfig'>): KubeClient {
  const config = new KubeConfig()
  config.loadFromFile(cluster.kubeconfig)
  keepConnections(config)
  sendThroughGuard(config, cluster)
  return clientsOf(config)
}

/**
 * Clients for a learner's cluster, from the values of its kubeconfig, without a file. Requests are guarded as above, and the
 * server's answers are limited (boundedHttp).
 */
export function clientOfLearner(cluster: Pick<Cluster, 'driver' | 'name'>, access: ClusterAccess): KubeClient {
  const { server, caData, tlsServerName, skipTLSVerify, token, certData, keyData } = access
  const config = new KubeConfig()
  config.loadFromClusterAndUser(
    { name: 'cluster', server, skipTLSVerify, ...(caData && { caData }), ...(tlsServerName && { tlsServerName }) },
    { name: 'user', ...(token && { token }), ...(certData && { certData }), ...(keyData && { keyData }) },
  )
  keepConnections(config)
  sendThroughGuard(config, cluster, boundedHttp())
  return clientsOf(config)
}

function clientsOf(config: KubeConfig): KubeClient {
  return {
    config,
    core: config.makeApiClient(CoreV1Api),
    apps: config.makeApiClient(AppsV1Api),
    discovery: config.makeApiClient(DiscoveryV1Api),
    mergePatch: setHeaderOptions('Content-Type', PatchStrategy.MergePatch),
    strategicPatch: setHeaderOptions('Content-Type', PatchStrategy.StrategicMergePatch),
  }
}

/** The client library creates an agent, and so a TLS connection, for each request; this keeps one for all requests. */
function keepConnections(config: KubeConfig): void {
  const authenticate = config.applySecurityAuthentication.bind(config)
  let kept: { agent: Agent; options: AgentOptions } | undefined
  config.applySecurityAuthentication = async (context) => {
    await authenticate(context)
    const fresh = context.getAgent()
    // The agent for an HTTP proxy has another class.
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
