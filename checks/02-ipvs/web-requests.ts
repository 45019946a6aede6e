import { randomUUID } from 'node:crypto'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectReadyPod } from '../../grading/expect-object.ts'
import { expectThat, Trouble } from '../../grading/failure.ts'
import { httpRequests } from '../../grading/http-requests.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { variantIn } from '../../grading/variant.ts'
import { WEB_NAMESPACE, type WebService, webService } from '../../grading/web-service.ts'
import { waitFor } from '../../host/wait.ts'

export const CLIENT = { namespace: 'default', name: 'client' }
const LOOK = 'kubectl get pods,endpointslices -l app=web -o wide'

/** Where the learner's client Pod runs. Fails if it is not ready. */
export function clientPod(
  { snapshot }: CheckContext,
  manifest = 'labs/02-ipvs/manifests/client.yaml',
): { address: string; node: string } {
  return expectReadyPod(snapshot.find('Pod', CLIENT.namespace, CLIENT.name), CLIENT.name, {
    inspect: 'kubectl get pod client -o wide',
    expected: 'a Pod client that is ready to send requests',
    hint: `kubectl apply -f ${manifest}`,
  })
}

function requests({ address, port }: WebService, token: string, times: number, keep: boolean): string {
  return httpRequests([{ address, port, path: `/?${token}${times > 1 ? '=' : ''}`, times, keep }])
}

/** A unique word for the URL of requests, to find them in access logs. */
export const newToken = () => `probe-${randomUUID().slice(0, 13)}`

/** Shell text: this number of requests, each over a new connection, until one fails; prints a `#request` line for each. */
export const separateRequests = (service: WebService, token: string, times: number) =>
  requests(service, token, times, false)

/** Shell text: this number of requests over one connection, until one fails; prints a `#request` line for each. */
export const requestsOnOneConnection = (service: WebService, token: string, times: number) =>
  requests(service, token, times, true)

/** One request as a backend logged it. */
interface LoggedRequest {
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

/** The endpoints of web are as many ready Pods as the variant requires, on at least two nodes. */
export function backendsOnTwoNodes({ snapshot }: CheckContext): void {
  const { name, backends } = webService(snapshot)
  const { replicas } = variantIn(snapshot)
  const nodes = new Set(backends.map(({ node }) => node))
  expectThat(backends.length >= replicas && nodes.size >= 2, {
    inspect: LOOK,
    expected: `${replicas} ready endpoints, on two nodes or more, in the EndpointSlice of ${name}`,
    ...(backends.length < replicas ? tooFew(snapshot, name, backends.length, replicas) : allOnOneNode(backends)),
  })
}

function tooFew(snapshot: Snapshot, name: string, ready: number, replicas: number) {
  const wanted = Number(snapshot.find('Deployment', WEB_NAMESPACE, name)?.spec?.replicas ?? 0)
  return {
    actual: `${ready} ready ${ready === 1 ? 'endpoint' : 'endpoints'}`,
    ...(wanted > 0 && wanted < replicas
      ? {
          hint: `Deployment ${name} asks for ${wanted} of the ${replicas} Pods that this lab needs:`,
          next: `kubectl scale deployment ${name} --replicas=${replicas}`,
        }
      : { hint: 'The Pods say what keeps them from being ready:', next: 'kubectl describe pods -l app=web' }),
  }
}

/** Schedulers may do that, as when a Deployment was scaled down. */
const allOnOneNode = (backends: WebService['backends']) => ({
  actual: `${backends.length} endpoints, all on ${backends[0]?.node}`,
  hint: 'Delete one of the Pods: the one that replaces it goes to a node that has none.',
  next: `kubectl delete pod ${backends.at(-1)?.pod}`,
})

/** One connection of IPVS: the client and the backend. */
interface IpvsConnection {
  client: string
  clientPort: number
  backend: string
}

const READINGS = /^#marked$([\s\S]*?)^#read$/gm
const MARKING = /^\[(\d+):\d+\] -A KUBE-SERVICES .*KUBE-CLUSTER-IP.*-j KUBE-MARK-MASQ$/m
const CONNECTION = /^(?:TCP|UDP|SCTP)\s+\S+\s+\S+\s+([\d.]+):(\d+)\s+(\S+)\s+([\d.]+):\d+$/gm

/**
 * Shell text that prints the rules with their packet counters; the relevant one is that of the rule that marks packets from
 * outside the Pod network. kube-proxy zeroes it at each sync, so a reading below the previous one is invalid.
 */
export function readMarked(): string {
  return "echo '#marked'; iptables-save -c -t nat; echo '#read'"
}

/** The readings in a script's output, in order; a missing rule counts as 0, unreadable rules are omitted. */
export function parseMarked(stdout: string): number[] {
  const readings = [...stdout.matchAll(READINGS)]
    .map(([, rules = '']) => rules)
    .filter((rules) => /^\*nat$/m.test(rules))
  return readings.map((rules) => Number(MARKING.exec(rules)?.[1] ?? 0))
}

/**
 * Shell text that lists the connections of IPVS. They are up to date, while `ipvsadm --stats` is updated only every two
 * seconds.
 */
export const listConnections = 'ipvsadm -Lnc'

/** The connections toward a Service in the output of `ipvsadm -Lnc`. */
export function parseConnections(stdout: string, { address, port }: WebService): IpvsConnection[] {
  return [...stdout.matchAll(CONNECTION)]
    .filter(([, , , virtual]) => virtual === `${address}:${port}`)
    .map(([, client = '', clientPort, , backend = '']) => ({ client, clientPort: Number(clientPort), backend }))
}

interface MarkedChange {
  /** Packets on the marking rule. */
  before: number
  after: number
  output: string
}

/** Runs a script on a node between two readings of the marking rule; undefined when they could not be read. */
export async function watchMarked(live: LiveCluster, node: string, script: string): Promise<MarkedChange | undefined> {
  const reading = readMarked()
  const { stdout } = await live.onNode(node, `${reading}\n${script}\n${reading}`)
  const [before, after] = parseMarked(stdout)
  return before === undefined || after === undefined ? undefined : { before, after, output: stdout }
}
