import type * as k8s from '@kubernetes/client-node'
import { timeoutScale } from '../host/wait.ts'
import { guardWrite } from './context/write-guard.ts'
import type { Cluster } from './driver.ts'

/** No request may wait longer than this for its whole answer: a paused machine accepts connections and says nothing. */
const answerMs = 30_000

/** The API server did not answer in time. */
class ApiDeadlineError extends Error {}

/** Has every API of a configuration send its requests with a deadline, and those that change somebody else's cluster through guardWrite. A `library` of the caller's sends them. */
export async function sendThroughGuard(
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
