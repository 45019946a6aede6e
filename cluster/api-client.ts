import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https'
import type { V1Status } from '@kubernetes/client-node'
import { scaledMs } from '../host/wait.ts'
import { guardWrite } from './context/write-guard.ts'
import type { Cluster, KubeClient, ReadApi } from './driver.ts'
import {
  AppsV1Api,
  CoreV1Api,
  createConfiguration,
  HttpMethod,
  KubeConfig,
  PatchStrategy,
  RequestContext,
  ResponseContext,
  ServerConfiguration,
  setHeaderOptions,
  wrapHttpLibrary,
} from './kubernetes.ts'

/** The largest list of a learner's cluster has a few megabytes. */
const LEARNERS_ANSWER_BYTES = 16 * 2 ** 20
/**
 * Timeout of a request including its answer: a paused machine accepts connections and sends
 * nothing.
 */
const ANSWER_MS = 30_000

/**
 * Sends a request and reads the whole answer, which is limited in time and size, is not
 * decompressed, and is not followed if it is a redirect (the client's own library follows it, with
 * our certificate, to any host that this machine reaches).
 */
async function sendLimited(context: RequestContext, limitBytes: number): Promise<ResponseContext> {
  const url = new URL(context.getUrl())
  const timeoutMs = scaledMs(ANSWER_MS)
  const signal = AbortSignal.timeout(timeoutMs)
  const options = {
    method: context.getHttpMethod(),
    headers: context.getHeaders(),
    signal,
    ...connectionOf(context),
  }
  try {
    const request = (url.protocol === 'http:' ? httpRequest : httpsRequest)(url, options)
    request.end(bodyOf(context))
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of response) {
      size += chunk.length
      if (size > limitBytes)
        throw new Error(`the API server answered with more than ${limitBytes / 2 ** 20} MiB`)
      chunks.push(chunk)
    }
    const bytes = Buffer.concat(chunks)
    const headers = Object.entries(response.headers).map(([name, value]) => [name, String(value)])
    const body = { text: async () => bytes.toString('utf8'), binary: async () => bytes }
    return new ResponseContext(response.statusCode ?? 0, Object.fromEntries(headers), body)
  } catch (error) {
    if (!signal.aborted) throw error
    const asked = `${options.method} ${url.pathname}`
    throw new Error(
      `the API server gave no answer to ${asked} within ${Math.round(timeoutMs / 1000)} s`,
    )
  }
}

/**
 * An idle connection is closed by us long before the server closes it, genuine ones after 90 s
 * (k8s.io/apiserver, IdleTimeout): a request that is sent at that moment gets no answer ("socket
 * hang up").
 */
const IDLE_MS = 30_000
/** Keeps connections between requests; those of other credentials are others (Agent.getName). */
const keepingAgent = new Agent({ keepAlive: true, timeout: IDLE_MS })

/**
 * The client library creates an agent, and so a TLS connection, for each request: only its options
 * are used.
 */
function connectionOf(context: RequestContext): RequestOptions {
  const agent = context.getAgent()
  if (!agent) return {}
  // The agent for an HTTP proxy has another class.
  if (agent.constructor !== Agent) return { agent }
  const { path: _, ...options } = (agent as Agent).options
  return { ...options, agent: keepingAgent }
}

function bodyOf(context: RequestContext): string | undefined {
  const body = context.getBody()
  return typeof body === 'string' ? body : undefined
}

/** Reads paths of an API server with the credentials of its configuration. */
const reader =
  (config: KubeConfig, limitBytes: number): ReadApi =>
  async (path) => {
    const get = new RequestContext(`${serverOf(config)}${path}`, HttpMethod.GET)
    await config.applySecurityAuthentication(get)
    const { httpStatusCode, body } = await sendLimited(get, limitBytes)
    if (httpStatusCode === 404) return undefined
    const text = await body.text()
    if (httpStatusCode === 200) return JSON.parse(text)
    throw new Error(
      `the API server answered ${httpStatusCode} to GET ${path}: ${refusalIn(text).slice(0, 300)}`,
    )
  }

/** The message of a Status of the API; any other text as it is. */
function refusalIn(text: string): string {
  try {
    const { message = text }: V1Status = JSON.parse(text)
    return String(message)
  } catch {
    return text
  }
}

const serverOf = (config: KubeConfig) => config.getCurrentCluster()?.server ?? ''

/**
 * Makes every API of a configuration send its requests by `send`, and those that change a cluster
 * that is not ours through guardWrite.
 */
function sendThroughGuard(
  config: KubeConfig,
  cluster: GuardedCluster,
  read: ReadApi,
  limitBytes: number,
): void {
  const guarded = async (request: RequestContext) => {
    if (!cluster.capabilities.ownedByUser) return sendLimited(request, limitBytes)
    const change = {
      method: request.getHttpMethod().toString(),
      url: request.getUrl(),
      body: bodyOf(request),
    }
    request.setBody((await guardWrite(cluster, change, read)) ?? request.getBody())
    return sendLimited(request, limitBytes)
  }
  const baseServer = new ServerConfiguration(serverOf(config), {})
  const httpApi = wrapHttpLibrary({ send: guarded })
  const configuration = createConfiguration({
    baseServer,
    authMethods: { default: config },
    httpApi,
  })
  config.makeApiClient = (type) => new type(configuration)
}

/**
 * The parts of a learner's kubeconfig that are kept: the server's address, how to verify the
 * server, and the credentials.
 */
export interface ClusterAccess {
  /** An https address without a user, query or fragment, and without a slash at its end. */
  server: string
  /**
   * This and the following fields are as in the kubeconfig: certificates and keys are PEM in
   * base64.
   */
  caData?: string
  tlsServerName?: string
  /**
   * The server's certificate is not verified. The risk is the learner's: the token, and the grade.
   */
  skipTLSVerify: boolean
  token?: string
  certData?: string
  keyData?: string
}

type GuardedCluster = Pick<Cluster, 'capabilities' | 'name'>

/**
 * Clients for a cluster, from its own kubeconfig. Every request has a deadline (send), and one that
 * changes a cluster that is not ours is guarded (sendThroughGuard), for every API.
 */
export function clientFromFile(cluster: GuardedCluster & Pick<Cluster, 'kubeconfig'>): KubeClient {
  const config = new KubeConfig()
  config.loadFromFile(cluster.kubeconfig)
  return clientsOf(config, cluster)
}

/**
 * The same for a learner's cluster, from the values of its kubeconfig, without a file; the size of
 * its answers is limited.
 */
export function clientOfLearner(cluster: GuardedCluster, access: ClusterAccess): KubeClient {
  const { server, caData, tlsServerName, skipTLSVerify, token, certData, keyData } = access
  const config = new KubeConfig()
  config.loadFromClusterAndUser(
    {
      name: 'cluster',
      server,
      skipTLSVerify,
      ...(caData && { caData }),
      ...(tlsServerName && { tlsServerName }),
    },
    {
      name: 'user',
      ...(token && { token }),
      ...(certData && { certData }),
      ...(keyData && { keyData }),
    },
  )
  return clientsOf(config, cluster, LEARNERS_ANSWER_BYTES)
}

function clientsOf(
  config: KubeConfig,
  cluster: GuardedCluster,
  limitBytes = Number.POSITIVE_INFINITY,
): KubeClient {
  const read = reader(config, limitBytes)
  sendThroughGuard(config, cluster, read, limitBytes)
  return {
    config,
    read,
    core: config.makeApiClient(CoreV1Api),
    apps: config.makeApiClient(AppsV1Api),
    mergePatch: setHeaderOptions('Content-Type', PatchStrategy.MergePatch),
    strategicPatch: setHeaderOptions('Content-Type', PatchStrategy.StrategicMergePatch),
  }
}
