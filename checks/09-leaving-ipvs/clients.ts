// The clients that send requests all the time, and what their logs say.

import * as z from 'zod'
import type { CheckContext, LiveContext } from '../../grading/check-context.ts'
import { podsWithLabel, WEB_NAMESPACE } from '../../grading/expect-object.ts'
import { expectThat, fail } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { nodeAddressOf, objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import { isMetWithin, scaledMs } from '../../host/wait.ts'
import { type ClientLog, type ClientPlace, lostSince, readClientLog } from './client-log.ts'
import type { ModePair } from './migration.ts'
import { OUTSIDE_LOG, outsideTargets, readOutside, START_OUTSIDE } from './outside-client.ts'

/** Longer than a learner works on a lab. */
const LOG_SECONDS = 86_400

const PLACES = { pod: 'in a Pod', node: 'on the node itself' } as const

/**
 * The client Pods: one in a Pod and one on the node itself, on every node. Fails if one is missing.
 */
function clientPods(snapshot: Snapshot) {
  const pods = podsWithLabel(snapshot, 'traffic').map(({ metadata, spec }) => ({
    pod: metadata.name,
    uid: metadata.uid ?? '',
    node: spec?.nodeName ?? '',
    place: metadata.labels?.from === 'node' ? ('node' as const) : ('pod' as const),
  }))
  for (const { name } of snapshot.nodes)
    for (const place of ['pod', 'node'] as const)
      expectThat(
        pods.some((one) => one.node === name && one.place === place),
        {
          inspect: 'kubectl get pods -l app=traffic -o wide',
          expected: `a client ${PLACES[place]} on every node`,
          actual: `none on ${name}`,
          next: 'kubectl apply -f labs/09-leaving-ipvs/manifests/traffic.yaml',
        },
      )
  return pods
}

/**
 * Every client with its log. Fails if a client is missing; throws Trouble if a log can't be read.
 */
export async function readClients(live: LiveCluster, snapshot: Snapshot): Promise<ClientLog[]> {
  return Promise.all(
    clientPods(snapshot).map(async (client) => {
      const place = { namespace: WEB_NAMESPACE, name: client.pod }
      return { ...client, ...readClientLog(await live.log(place, LOG_SECONDS)) }
    }),
  )
}

/** Every client with its log, in Pods and outside. Fails and throws as `readClients` does. */
export async function readAllClients(live: LiveCluster, snapshot: Snapshot): Promise<ClientLog[]> {
  const [inPods, outside] = await Promise.all([readClients(live, snapshot), readOutside(live)])
  return [...inPods, ...outside]
}

/**
 * A client prints its counts every second, unless it waits: up to five seconds for a connection or
 * an answer, of each of its targets.
 */
const TOLD_MS = 15_000

/**
 * Every client with its log after it has printed its counts once more: what it lost before this
 * call is in its log. Fails if a client prints none.
 */
export async function readToldClients(read: () => Promise<ClientLog[]>): Promise<ClientLog[]> {
  let clients = await read()
  const before = new Map(clients.map(({ uid, counts }) => [uid, counts]))
  const silentOne = () => clients.find(({ uid, counts }) => counts <= (before.get(uid) ?? -1))
  await isMetWithin(TOLD_MS, async () => {
    clients = await read()
    return silentOne() === undefined
  })
  const silent = silentOne()
  if (silent)
    fail({
      inspect: `${printLog(silent)} | tail -n 3`,
      expected: 'a line of counts every second',
      actual: `${nameOf(silent)} has printed none for ${scaledMs(TOLD_MS) / 1000} s`,
    })
  return clients
}

/**
 * The addresses that the clients of a place call, as the ConfigMap `traffic` has them, with those
 * of one node for `own-node`.
 */
export function configuredTargets(snapshot: Snapshot, place: ClientPlace, node: string): string[] {
  const text = snapshot.find('ConfigMap', WEB_NAMESPACE, 'traffic')?.data?.[place] ?? ''
  return text
    .split(/\s+/)
    .filter(Boolean)
    .map((target) => {
      if (target.includes(':'))
        return target.replace(/^own-node:/, `${nodeAddressOf(snapshot, node)}:`)
      const service = objectsOf(snapshot).services.find(
        ({ namespace, name }) => namespace === WEB_NAMESPACE && name === target,
      )
      return `${service?.clusterIPs[0] ?? target}:${service?.ports[0]?.port ?? '?'}`
    })
}

/** What the clients of a place must call, by the words of the ConfigMap `traffic`. */
const wantedTargets = (place: ClientPlace, { from }: ModePair): [name: string, RegExp][] => {
  const orders: [string, RegExp] = ['orders', /(?:^|\s)orders(?:\s|$)/]
  if (place === 'node') return [orders, ['the node port of orders', /:30090(?:\s|$)/]]
  return from === 'ipvs' ? [orders, ['stock', /(?:^|\s)stock(?:\s|$)/]] : [orders]
}

/**
 * Every client calls what the lab is about: orders by its ClusterIP, on nodes by its node port, and
 * from IPVS mode on stock.
 */
export function expectWholeTargets(snapshot: Snapshot, change: ModePair): void {
  const { data = {} } = snapshot.find('ConfigMap', WEB_NAMESPACE, 'traffic') ?? {}
  for (const place of ['pod', 'node'] as const) {
    const missing = wantedTargets(place, change).filter(
      ([, pattern]) => !pattern.test(data[place] ?? ''),
    )
    expectThat(missing.length === 0, {
      inspect: 'kubectl get configmap traffic -o yaml',
      expected: `clients ${PLACES[place]} that call ${wantedTargets(place, change)
        .map(([name]) => name)
        .join(' and ')}`,
      actual: `no ${missing.map(([name]) => name).join(' and ')}`,
      hint: 'Take the targets of the lab:',
      next: `kubectl apply -f labs/09-leaving-ipvs/manifests/clients-${change.from}.yaml`,
    })
  }
  clientPods(snapshot)
}

/** Every client has had answers from all its targets, which are those of the ConfigMap. */
export function expectRunning(clients: readonly ClientLog[], snapshot: Snapshot): void {
  for (const client of clients) {
    const { node, place, targets, answered } = client
    const wanted =
      place === 'outside' ? outsideTargets(snapshot) : configuredTargets(snapshot, place, node)
    const inspect = `${printLog(client)} | tail -n 3`
    expectThat(targets.length > 0 && answered > 0, {
      inspect,
      expected: `answers from ${wanted.join(' and ')}`,
      actual: targets.length > 0 ? 'no request yet' : 'it waits for the first answer of a target',
    })
    expectThat(targets.toSorted().join() === wanted.toSorted().join(), {
      inspect,
      expected:
        place === 'outside'
          ? `requests to ${wanted.join(' and ')}`
          : `requests to ${wanted.join(' and ')}, as the ConfigMap traffic says`,
      actual: `to ${targets.join(' and ')}: a client has the targets with which it was started`,
      next:
        place === 'outside' ? START_OUTSIDE : `kubectl rollout restart daemonset/traffic-${place}`,
    })
  }
}

/** The command that prints a client's log. */
const printLog = ({ pod, place }: ClientLog): string =>
  place === 'outside' ? OUTSIDE_LOG : `kubectl logs ${pod}`

/** A client in a sentence. */
const nameOf = ({ pod, node, place }: ClientLog): string =>
  place === 'outside' ? 'the client outside' : `${pod} on ${node}`

const CLIENTS_NOTE = 'clients'
/** The clients from whose logs the lost requests are counted, and what they had lost before. */
const clientsNote = z.record(z.string(), z.number())
/** How many lines of counts their logs had. */
const COUNTS_NOTE = 'clients-counts'

/** Notes from which requests on the lost ones are counted. */
export function beginCounting({ notes }: CheckContext, clients: readonly ClientLog[]): void {
  notes.keep(
    CLIENTS_NOTE,
    Object.fromEntries(clients.map(({ uid, failed }) => [uid, failed.length])),
  )
  notes.keep(COUNTS_NOTE, Object.fromEntries(clients.map(({ uid, counts }) => [uid, counts])))
}

/**
 * Evidence: not one request of the client Pods failed since they are counted. Fails with each lost
 * request: client, target and time.
 */
export const nothingLost = (context: LiveContext): Promise<object> =>
  countLost(context, readClients)

/** The same of all clients, in Pods and outside. */
export const nothingLostAnywhere = (context: LiveContext): Promise<object> =>
  countLost(context, readAllClients)

/** The evidence of `nothingLost`, of clients that `read` reads. */
async function countLost(context: LiveContext, read: typeof readClients): Promise<object> {
  const { live, snapshot, notes, show } = context
  const before = notes.read(CLIENTS_NOTE, clientsNote) ?? {}
  const counts = notes.read(COUNTS_NOTE, clientsNote) ?? {}
  const clients = await readToldClients(() => read(live, snapshot))
  expectRunning(clients, snapshot)
  const restarted = clients.find(({ uid }) => before[uid] === undefined)
  if (restarted)
    fail({
      inspect: 'kubectl get pods -l app=traffic',
      expected: 'the clients that ran before the change: their logs are the count',
      actual: `${nameOf(restarted)} was started later, and what was lost before is not known`,
      hint: `The lab starts over with \`make reset-${notes.lab}\`.`,
    })
  const lost = clients.flatMap((client) =>
    lostSince(client.failed, before[client.uid] ?? 0, counts[client.uid]).map((request) => ({
      client,
      ...request,
    })),
  )
  const answered = clients.reduce((sum, client) => sum + client.answered, 0)
  show([
    `${answered} requests answered, ${lost.length} lost`,
    ...lost.map(
      ({ at, client, kind, target, why }) =>
        `${at}  ${nameOf(client)}: ${kind} connection to ${target}: ${why}`,
    ),
  ])
  const [first] = lost
  expectThat(!first, {
    inspect: `${first && printLog(first.client)} | grep FAILED`,
    expected: 'not one failed request',
    actual: `${lost.length} failed; the first at ${first?.at} UTC, from ${first && nameOf(first.client)} to ${first?.target}: ${first?.why}`,
    hint: `Compare the times with what you did at them. \`make reset-${notes.lab}\` starts over.`,
  })
  return { clients: clients.length, answered, lost: 0 }
}
