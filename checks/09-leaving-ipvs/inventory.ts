// Before the change: the traffic, what will no longer answer, and the Service or client that is
// corrected.

import type { ServiceChange } from '../../dataplane/migration/report-shape.ts'
import type { CheckContext, Truth } from '../../grading/check-context.ts'
import { WEB_NAMESPACE } from '../../grading/expect-object.ts'
import { expectThat } from '../../grading/failure.ts'
import { tracedTo } from '../../grading/packet-trace.ts'
import { controlPlaneOf, objectsOf, type Snapshot } from '../../grading/snapshot.ts'
import {
  beginCounting,
  configuredTargets,
  expectRunning,
  expectWholeTargets,
  readAllClients,
} from './clients.ts'
import { beginChange, modeChange, plannedChanges } from './migration.ts'
import { outsideTargets } from './outside-client.ts'

const STOCK = 'stock'

/** Clients on every node call the Services of the lab and get answers, in the mode that is left. */
export async function trafficFlows(context: CheckContext): Promise<void> {
  const { snapshot, live } = context
  const change = await beginChange(context)
  expectWholeTargets(snapshot, change)
  if (!live) return
  expectRunning(await readAllClients(live, snapshot), snapshot)
}

const stockOf = (snapshot: Snapshot) =>
  objectsOf(snapshot).services.find(
    ({ namespace, name }) => namespace === WEB_NAMESPACE && name === STOCK,
  )

/** Predict: what a client on a node without a Pod of stock gets from it in the mode that runs. */
export function stockWithoutLocalPod(context: CheckContext): Truth {
  const { from } = modeChange(context)
  const { snapshot } = context
  const node = controlPlaneOf(snapshot) ?? snapshot.nodes[0]
  const service = stockOf(snapshot)
  expectThat(node && service, {
    inspect: 'kubectl get service stock',
    expected: 'the Service stock',
    actual: 'none',
  })
  const target = { address: service.clusterIPs[0] ?? '', port: service.ports[0]?.port ?? 80 }
  const { backends } = tracedTo(node, 'node', target)
  return {
    accepts: [backends.length > 0 ? 'an-answer' : 'nothing'],
    inspect: 'kubectl get service stock -o yaml',
    wrong: [
      {
        when: 'nothing',
        because:
          'That is what internalTrafficPolicy: Local asks for, and what iptables mode does. IPVS mode ignores the field on a node without a Pod if the Service has a node port.',
      },
      {
        when: 'an-answer',
        because: 'This mode follows internalTrafficPolicy: Local, and drops the packet.',
      },
    ],
    because:
      from === 'ipvs'
        ? 'IPVS mode keeps one list of real servers for the ClusterIP and the node port, and without a Pod on the node that list has all of them. So no client noticed the field, until now.'
        : 'The rules of the node drop packets to a ClusterIP whose policy is Local if the node has no Pod of it.',
  }
}

/** The changes by which a client no longer gets an answer. */
const stops = (changes: readonly ServiceChange[]) =>
  changes.filter(({ effect, service }) => effect === 'stops' && service !== null)

const CHOICES = ['orders', 'stock', 'kubernetes', 'kube-dns']

/** Question: which Services some clients will no longer reach. */
export function servicesThatStop(context: CheckContext): Truth {
  const change = modeChange(context)
  const stopping = new Set(
    stops(plannedChanges(context.snapshot, change)).map(({ service }) => service?.split('/')[1]),
  )
  const accepted = CHOICES.filter((name) => stopping.has(name))
  return {
    accepts: [accepted.join(', ') || 'none'],
    inspect: `make migration TO=${change.to}`,
    wrong: [
      {
        when: (answer) => answer !== 'none' && accepted.every((name) => answer.includes(name)),
        because:
          'One of them is listed under another heading: it answers newly, or with other shares, which breaks no client.',
      },
      {
        when: 'none',
        because: 'The report has a part "No longer answers", and ends with status 1 because of it.',
      },
      {
        when: (answer) => !answer.includes('stock') || accepted.length > 1,
        because: 'Look at the name above each cause in the part "No longer answers".',
      },
    ],
    because:
      'Both modes were predicted for each node, and the first packets of connections traced through both: these are answered before, and not afterwards.',
  }
}

/**
 * What a client that is not corrected would see, by the predicted rules: nothing if its packets are
 * dropped.
 */
export function uncorrectedClient(context: CheckContext): Truth {
  const change = modeChange(context)
  const { snapshot } = context
  const objects = objectsOf(snapshot)
  // Before the fix: the Service as its manifest has it.
  const services = objects.services.map((service) =>
    service.namespace === WEB_NAMESPACE && service.name === STOCK
      ? { ...service, internalTrafficPolicy: 'Local' as const }
      : service,
  )
  const isMeant = (target: string) =>
    change.from === 'ipvs' ? target === 'ClusterIP' : target === 'node port on loopback'
  const calls = stops(plannedChanges(snapshot, change, { ...objects, services }))
    .flatMap(({ calls }) => calls)
    .filter(({ target }) => isMeant(target))
  const after = calls[0]?.after ?? ''
  return {
    accepts: [after.startsWith('refused') ? 'refused' : 'silence'],
    inspect: `make migration TO=${change.to}`,
    wrong: [
      {
        when: 'refused',
        because:
          'A refusal is a packet that comes back: from a REJECT rule, or from a machine without a listener. Rules that follow a traffic policy drop the packet.',
      },
      {
        when: 'silence',
        because:
          'Without a rule for 127.0.0.1 the packet goes where its address says: to the node itself, where no process listens on the port.',
      },
      {
        when: 'another-pod',
        because: 'Then it would be an answer, and nothing would have to be fixed.',
      },
    ],
    because:
      change.from === 'ipvs'
        ? 'The new rules follow internalTrafficPolicy: Local, and drop what has no Pod on the node: the client waits until it gives up.'
        : 'nftables mode serves node ports on the primary address only (KEP-3866), so 127.0.0.1 is an ordinary address without a listener: the kernel refuses.',
  }
}

/**
 * No client calls what the new mode will not answer, and the clients run with these targets. From
 * here on lost requests count.
 */
export async function nothingWillStop(context: CheckContext): Promise<void> {
  const { snapshot, live, nodes } = context
  const change = modeChange(context)
  expectWholeTargets(snapshot, change)
  const calls = stops(plannedChanges(snapshot, change)).flatMap(({ calls, ...why }) =>
    calls.map((call) => ({ ...why, ...call })),
  )
  const expectKept = (
    who: string,
    targets: readonly string[],
    isCaller: (call: (typeof calls)[number]) => boolean,
    node?: string,
  ) => {
    for (const target of targets) {
      const found = calls.find((call) => isCaller(call) && call.to.includes(target))
      expectThat(!found, {
        ...(node !== undefined && { node }),
        inspect: `make migration TO=${change.to}`,
        expected: `an answer for the client ${who} that calls ${target}, in ${change.to} mode too`,
        actual: `${found?.after}: ${found?.field} of ${found?.service}`,
        hint: found?.advice ?? '',
      })
    }
  }
  for (const { name } of nodes)
    for (const place of ['pod', 'node'] as const)
      expectKept(
        place === 'pod' ? 'in a Pod' : 'on the node',
        configuredTargets(snapshot, place, name),
        ({ client, nodes: where }) => client === place && where.includes(name),
        name,
      )
  expectKept('outside', outsideTargets(snapshot), ({ client }) => client === 'outside')
  if (!live) return
  const clients = await readAllClients(live, snapshot)
  expectRunning(clients, snapshot)
  beginCounting(context, clients)
}
