import { Trouble } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { WEB_NAMESPACE, type WebBackend, type WebService } from '../../grading/web-service.ts'
import { waitFor } from '../../host/wait.ts'
import { newToken } from '../02-ipvs/web-requests.ts'
import { askFromOutside, type Request } from './outside-requests.ts'

/** One request as the Pod that answered it logged it. */
export interface LoggedRequest {
  /** Which of the requests it was. */
  index: number
  backend: WebBackend
  /** The address that the Pod saw as the client. */
  client: string
}

/** What came of requests: the statuses of each, and what the Pods logged of those that were answered. */
export interface Traffic {
  statuses: number[][]
  logged: LoggedRequest[]
}

const LOG_SECONDS = 60

/**
 * Sends requests from outside and reads in the Pods' access logs who answered them, and to whom they thought to answer. Throws
 * as askFromOutside does, and Trouble when an answer is in no log.
 */
export async function askAndReadLogs(
  live: LiveCluster,
  web: WebService,
  requests: readonly Request[],
): Promise<Traffic> {
  const token = newToken()
  const marked = requests.map((request, index) => ({
    ...request,
    path: `/?${token}-${index}${request.times === undefined ? '' : '='}`,
  }))
  const statuses = await askFromOutside(live, marked)
  const answered = statuses.flat().filter((status) => status === 200).length
  try {
    const logged = await waitFor('the access logs', 4000, async () => {
      const found = await readLogs(live, web, token)
      return found.length >= answered && found
    })
    return { statuses, logged }
  } catch (error) {
    if (error instanceof Trouble) throw error
    throw new Trouble('the web Pods answered, but their access logs do not show it')
  }
}

async function readLogs(live: LiveCluster, { backends }: WebService, token: string): Promise<LoggedRequest[]> {
  const request = new RegExp(`${token}-(\\d+)\\b`)
  const logs = await Promise.all(
    backends.map(async (backend) => {
      const log = await live.log({ namespace: WEB_NAMESPACE, name: backend.pod }, LOG_SECONDS)
      return log.split('\n').flatMap((line) => {
        const index = request.exec(line)?.[1]
        return index === undefined ? [] : [{ index: Number(index), backend, client: line.split(' ', 1)[0] ?? '' }]
      })
    }),
  )
  return logs.flat()
}
