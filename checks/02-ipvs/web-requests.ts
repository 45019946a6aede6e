import { randomUUID } from 'node:crypto'
import { hasCondition } from '../../grading/api-object.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { fail, Trouble } from '../../grading/failure.ts'
import { httpRequests } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { variantIn } from '../../grading/variant.ts'
import { WEB_NAMESPACE, type WebService, webService } from '../../grading/web-service.ts'
import { waitFor } from '../../host/wait.ts'

export const CLIENT = { namespace: 'default', name: 'client' }
const LOOK = 'kubectl get pods,endpointslices -l app=web -o wide'

/** Where the learner's client Pod runs. Fails when there is none that is ready. */
export function clientPod(
  { snapshot }: CheckContext,
  manifest = 'labs/02-ipvs/manifests/client.yaml',
): { address: string; node: string } {
  const pod = snapshot.find('Pod', CLIENT.namespace, CLIENT.name)
  const address = pod?.status?.podIP
  const node = pod?.spec?.nodeName
  if (!pod || !hasCondition(pod, 'Ready') || !address || !node)
    fail({
      look: 'kubectl get pod client -o wide',
      expected: 'a Pod client that is ready to send requests',
      actual: pod ? `the Pod is ${pod.status?.phase ?? 'not started'} and not ready` : 'no Pod of that name',
      hint: `kubectl apply -f ${manifest}`,
    })
  return { address, node }
}

function requests({ address, port }: WebService, token: string, times: number, keep: boolean): string {
  return httpRequests([{ address, port, path: `/?${token}${times > 1 ? '=' : ''}`, times, keep }])
}

/** A word that no other request has in its URL, so that access logs can be searched for it. */
export const newToken = () => `probe-${randomUUID().slice(0, 13)}`

/** Shell text: so many requests, each over a connection of its own, until one fails; prints a `#request` line for each. */
export const separateRequests = (service: WebService, token: string, times: number) =>
  requests(service, token, times, false)

/** Shell text: so many requests over one connection, until one fails; prints a `#request` line for each. */
export const requestsOnOneConnection = (service: WebService, token: string, times: number) =>
  requests(service, token, times, true)

/** One request as a backend logged it. */
export interface LoggedRequest {
  backend: string
  client: string
}

/** The requests with that token in the access logs of all backends; waits until `count` have been written. */
export async function loggedRequests(
  live: LiveCluster,
  { backends }: WebService,
  token: string,
  count: number,
): Promise<LoggedRequest[]> {
  try {
    return await waitFor('the access logs', 4000, async () => {
      const logs = await Promise.all(
        backends.map(async ({ address, pod }) => {
          const log = await live.log({ namespace: WEB_NAMESPACE, name: pod }, 60)
          const lines = log.split('\n').filter((line) => line.includes(token))
          return lines.map((line) => ({ backend: address, client: line.split(' ', 1)[0] ?? '' }))
        }),
      )
      return logs.flat().length >= count && logs.flat()
    })
  } catch (error) {
    if (error instanceof Trouble) throw error
    throw new Trouble('the web Pods answered, but their access logs do not show it')
  }
}

/** As many ready Pods of web as the variant wants, on at least two nodes, are the endpoints of its Service. */
export function backendsOnTwoNodes({ snapshot }: CheckContext): void {
  const { name, backends } = webService(snapshot)
  const { replicas } = variantIn(snapshot)
  const nodes = new Set(backends.map(({ node }) => node))
  if (backends.length >= replicas && nodes.size >= 2) return
  fail({
    look: LOOK,
    expected: `${replicas} ready endpoints, on two nodes or more, in the EndpointSlice of ${name}`,
    actual:
      backends.length < replicas
        ? `${backends.length} ready ${backends.length === 1 ? 'endpoint' : 'endpoints'}`
        : `${backends.length} endpoints, all on ${[...nodes][0]}`,
    hint: 'make web creates what is missing; kubectl describe pods -l app=web says what keeps a Pod from being ready.',
  })
}
