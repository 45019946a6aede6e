// Lab 10: requests with a learner's word in the access logs of nginx.

import { WEB_NAMESPACE } from '../../grading/expect-object.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'

/** `client - - [27/Nov/2026:14:05:31 +0000] "GET /?marker HTTP/1.1" …` */
const LOGGED = /^(\S+) - - \[(\d+)\/(\w+)\/(\d+):([\d:]+) (\S+)\] "GET \/\?(\S+) HTTP/
const LOG_SECONDS = 3600

/** A request that a Pod has answered. */
export interface TimedRequest {
  pod: string
  client: string
  marker: string
  /** Milliseconds since 1970; nginx logs whole seconds. */
  at: number
}

/**
 * The requests of the last hour whose marker begins with the word, in the order of their times.
 * Throws Trouble if a log can't be read.
 */
export async function timedRequests(
  live: LiveCluster,
  pods: readonly string[],
  word: string,
): Promise<TimedRequest[]> {
  const logs = pods.map(async (pod) => {
    const log = await live.log({ namespace: WEB_NAMESPACE, name: pod }, LOG_SECONDS)
    return log.split('\n').flatMap((line): TimedRequest[] => {
      const [, client = '', day, month, year, time, zone, marker = ''] = LOGGED.exec(line) ?? []
      if (!marker.startsWith(word)) return []
      return [{ pod, client, marker, at: Date.parse(`${day} ${month} ${year} ${time} ${zone}`) }]
    })
  })
  return (await Promise.all(logs)).flat().sort((one, other) => one.at - other.at)
}
