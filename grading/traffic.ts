import { isMetWithin } from '../host/wait.ts'
import { WEB_NAMESPACE } from './expect-object.ts'
import {
  expectThat,
  type FailureDetail,
  type FailureText,
  fail,
  onNode,
  Trouble,
} from './failure.ts'
import type { LiveCluster } from './live-cluster.ts'

// Assertions about what a cluster did with real traffic: measurements, the Pods' access logs,
// listeners. Each throws a failure with the command to repeat it, or returns if it holds.

/** The result of a measurement that is not the expected one. */
interface Mismeasured extends Pick<FailureDetail, 'actual' | 'differences'> {
  /** Another measurement would have the same result. */
  isFinal?: boolean
}

/**
 * A measurement that other traffic can disturb is right, which returns undefined, in one of several
 * attempts.
 */
export async function expectWithin(
  attempts: number,
  measure: () => Promise<Mismeasured | undefined>,
  told: Omit<FailureDetail, 'actual'>,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const wrong = await measure()
    if (!wrong) return
    const { isFinal = false, ...found } = wrong
    expectThat(!isFinal && attempt < attempts, { ...told, ...found })
  }
}

/**
 * Every request in the Pods' logs is as expected; `describe` returns the text for one that is not.
 */
export function expectLogged<Request extends { client: string }>(
  logged: readonly Request[],
  isRight: (request: Request) => boolean,
  describe: (
    request: Request,
  ) => Partial<FailureDetail> & Pick<FailureDetail, 'expected' | 'actual'>,
): void {
  const wrong = logged.find((request) => !isRight(request))
  if (wrong) fail({ inspect: 'kubectl logs -l app=web --prefix --tail=4', ...describe(wrong) })
}

/** A process of the node listens on that TCP port, on expected addresses. */
export async function expectListener(
  live: LiveCluster,
  { node, port }: { node: string; port: number },
  isRight: (addresses: readonly string[]) => boolean,
  texts: FailureText & Pick<FailureDetail, 'expected'>,
): Promise<void> {
  const { stdout } = await live.readOnNode(node, `ss -Hltn 'sport = :${port}'`)
  const addresses = [...stdout.matchAll(/^\S+ +\d+ +\d+ +(\S+):\d+ /gm)].map(
    ([, address = '']) => address,
  )
  const actual =
    addresses.length > 0
      ? `it listens on ${addresses.join(', ')}`
      : `nothing listens on port ${port}`
  expectThat(isRight(addresses), { node, inspect: onNode(node, 'ss -ltn'), actual, ...texts })
}

const LOG_SECONDS = 60

/** One request as a Pod logged it. */
export interface LoggedRequest<Backend> {
  backend: Backend
  /** The address that the Pod saw as the client. */
  client: string
  line: string
}

/**
 * The requests with a token in their URL, from these Pods' access logs; none are read if there are
 * no answers. Waits until there are `count`; throws Trouble if there are fewer.
 */
export async function loggedRequests<Backend extends { pod: string }>(
  live: LiveCluster,
  backends: readonly Backend[],
  token: string,
  count: number,
): Promise<LoggedRequest<Backend>[]> {
  if (count === 0) return []
  const read = async (backend: Backend) => {
    const log = await live.log({ namespace: WEB_NAMESPACE, name: backend.pod }, LOG_SECONDS)
    const lines = log.split('\n').filter((line) => line.includes(token))
    return lines.map((line) => ({ backend, client: line.split(' ', 1)[0] ?? '', line }))
  }
  let logged: LoggedRequest<Backend>[] = []
  const isComplete = await isMetWithin(4000, async () => {
    logged = (await Promise.all(backends.map(read))).flat()
    return logged.length >= count
  })
  if (!isComplete) throw new Trouble('the Pods answered, but their access logs do not show it')
  return logged
}
