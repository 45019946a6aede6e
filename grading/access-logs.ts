import { DeadlineError, waitFor } from '../host/wait.ts'
import { Trouble } from './failure.ts'
import type { LiveCluster } from './live-cluster.ts'
import { WEB_NAMESPACE } from './web-service.ts'

const LOG_SECONDS = 60

/** One request as a Pod logged it. */
export interface LoggedRequest<Backend> {
  backend: Backend
  /** The address that the Pod saw as the client. */
  client: string
  line: string
}

/**
 * The requests with a token in their URL, from the access logs of these Pods; waits until `count` have been written.
 * @throws Trouble when there are fewer
 */
export async function loggedRequests<Backend extends { pod: string }>(
  live: LiveCluster,
  backends: readonly Backend[],
  token: string,
  count: number,
): Promise<LoggedRequest<Backend>[]> {
  const read = async (backend: Backend) => {
    const log = await live.log({ namespace: WEB_NAMESPACE, name: backend.pod }, LOG_SECONDS)
    const lines = log.split('\n').filter((line) => line.includes(token))
    return lines.map((line) => ({ backend, client: line.split(' ', 1)[0] ?? '', line }))
  }
  try {
    return await waitFor('the access logs', 4000, async () => {
      const logged = (await Promise.all(backends.map(read))).flat()
      return logged.length >= count && logged
    })
  } catch (error) {
    if (!(error instanceof DeadlineError)) throw error
    throw new Trouble('the Pods answered, but their access logs do not show it')
  }
}
