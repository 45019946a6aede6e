// The clients that send requests all the time, and what their logs say.

import * as z from 'zod'
import type { CheckContext, LiveContext } from '../../grading/check-context.ts'
import { podsWithLabel, WEB_NAMESPACE } from '../../grading/expect-object.ts'
import { expectThat, fail } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { nodeAddressOf, objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import { type ClientLog, readClientLog } from './client-log.ts'
import type { ModePair } from './migration.ts'
import { readOutside } from './outside-client.ts'

/** Longer than anybody works on a lab. */
const LOG_SECONDS = 86_400

/** Where a client Pod runs: in a network of its own or in the node's. */
export type ClientPlace = 'pod' | 'node'

const PLACES = { pod: 'in a Pod', node: 'on the node itself' } as const

/** The client Pods: one in a Pod and one on the node itself, on every node. Fails if one is missing. */
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

/** Every client with its log, in Pods and outside. Fails if a client is missing; throws Trouble if a log can't be read. */
export async function readClients(live: LiveCluster, snapshot: Snapshot): Promise<ClientLog[]> {
  const inPods = clientPods(snapshot).map(async ({ pod, uid, node, place }) => ({
    name: `${pod} on ${node}`,
    uid,
    wanted: configuredTargets(snapshot, place, node),
    log: `kubectl logs ${pod}`,
    restart: `kubectl rollout restart daemonset/traffic-${place}`,
    ...readClientLog(await live.log({ namespace: WEB_NAMESPACE, name: pod }, LOG_SECONDS)),
  }))
  return Promise.all([
    ...inPods,
    ...(live.cluster.capabilities.hasOutside ? [readOutside(live, snapshot)] : []),
  ])
}

/** The addresses that the clients of a place call, as the ConfigMap `traffic` has them, with those of one node for `own-node`. */
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

/** Every client calls what the lab is about: orders by its ClusterIP, on nodes by its node port, and from IPVS mode on stock. */
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
export function expectRunning(clients: readonly ClientLog[]): void {
  for (const { targets, answered, wanted, log, restart } of clients) {
    const inspect = `${log} | tail -n 3`
    expectThat(targets.length > 0 && answered > 0, {
      inspect,
      expected: `answers from ${wanted.join(' and ')}`,
      actual: targets.length > 0 ? 'no request yet' : 'it waits for the first answer of a target',
    })
    expectThat(targets.toSorted().join() === wanted.toSorted().join(), {
      inspect,
      expected: `requests to ${wanted.join(' and ')}`,
      actual: `to ${targets.join(' and ')}: a client has the targets with which it was started`,
      next: restart,
    })
  }
}

const CLIENTS_NOTE = 'clients'
/** The clients from whose logs the lost requests are counted, and what they had lost before. */
const clientsNote = z.record(z.string(), z.number())

/** Notes from which requests on the lost ones are counted. */
export function beginCounting({ notes }: CheckContext, clients: readonly ClientLog[]): void {
  notes.keep(
    CLIENTS_NOTE,
    Object.fromEntries(clients.map(({ uid, failed }) => [uid, failed.length])),
  )
}

/** Evidence: not one request failed since the clients are counted. Fails with each lost request: client, target and time. */
export async function nothingLost(context: LiveContext): Promise<object> {
  const { live, snapshot, notes, show } = context
  const before = notes.read(CLIENTS_NOTE, clientsNote) ?? {}
  const clients = await readClients(live, snapshot)
  expectRunning(clients)
  const restarted = clients.find(({ uid }) => before[uid] === undefined)
  if (restarted)
    fail({
      inspect: 'kubectl get pods -l app=traffic',
      expected: 'the clients that ran before the change: their logs are the count',
      actual: `${restarted.name} was started later, and what was lost before is not known`,
      hint: 'The lab starts over with `make reset-9`.',
    })
  const lost = clients.flatMap(({ name, uid, log, failed }) =>
    failed.slice(before[uid] ?? 0).map((request) => ({ name, log, ...request })),
  )
  const answered = clients.reduce((sum, client) => sum + client.answered, 0)
  show([
    `${answered} requests answered, ${lost.length} lost`,
    ...lost.map(
      ({ at, name, kind, target, why }) =>
        `${at}  ${name}: ${kind} connection to ${target}: ${why}`,
    ),
  ])
  const [first] = lost
  expectThat(!first, {
    inspect: `${first?.log} | grep FAILED`,
    expected: 'not one failed request',
    actual: `${lost.length} failed; the first at ${first?.at} UTC, from ${first?.name} to ${first?.target}: ${first?.why}`,
    hint: 'Compare the times with what you did at them. `make reset-9` starts over.',
  })
  return { clients: clients.length, answered, lost: 0 }
}
