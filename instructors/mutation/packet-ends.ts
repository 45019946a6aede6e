import { loadBalancerService, nodePortService } from '../../checks/03-from-outside/exposed-service.ts'
import { SOMEBODY_OUTSIDE } from '../../checks/03-from-outside/outside-requests.ts'
import { VIPS } from '../../checks/04-lvs/stage.ts'
import { AGENT_PORT, clusterIPs } from '../../checks/05-exposure/node-agent.ts'
import type { Capture } from '../../cluster/capture-folder.ts'
import { CircleError, type Packet, PacketError, tracePacket } from '../../dataplane/trace.ts'
import { Failure } from '../../grading/failure.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { WEB_NAMESPACE } from '../../grading/web-service.ts'

type Followed = Omit<Packet, 'protocol'>

/** Where, by the rules of one node, every packet ends that a lab follows at its moments. Equal texts, equal ends. */
export function packetEnds(capture: Capture, node: string, lab: number): string {
  const snapshot = new Snapshot(capture)
  const { state } = snapshot.node(node)
  return (FOLLOWED[lab]?.(snapshot, node) ?? [])
    .map((packet) => {
      try {
        const { verdict, outcomes, lost } = tracePacket(state, { ...packet, protocol: 'tcp' }, { matchingOnly: true })
        const ends = outcomes.map(({ to, probability }) => [to, probability.toFixed(6)])
        return JSON.stringify([packet, verdict, ends.sort(), lost.map((loss) => [loss.verdict, loss.probability])])
      } catch (error) {
        if (!(error instanceof PacketError || error instanceof CircleError)) throw error
        return JSON.stringify([packet, error.message])
      }
    })
    .join('\n')
}

const FOLLOWED: Record<number, (snapshot: Snapshot, node: string) => Followed[]> = {
  1: toServices,
  2: toServices,
  3: fromOutside,
  4: toServersByHand,
  5: (snapshot, node) => [toServices, toPods, toAgents].flatMap((packets) => packets(snapshot, node)),
  // In iptables mode by real requests.
  7: (snapshot, node) => (snapshot.node(node).mode === 'userspace' ? toServices(snapshot, node) : []),
}

/** Makes packets of the Pod client, on the node that it is on. */
function clientOn(snapshot: Snapshot, node: string) {
  const client = snapshot.find('Pod', WEB_NAMESPACE, 'client')
  const source = client?.spec?.nodeName === node ? client.status?.podIP : undefined
  return (destination: string, port: number | undefined): Followed[] =>
    source === undefined || port === undefined ? [] : [{ from: 'pod', source, destination, port }]
}

/** To the learner's own Services. */
function toServices(snapshot: Snapshot, node: string): Followed[] {
  const fromClient = clientOn(snapshot, node)
  const own = snapshot.objects.services.filter(
    ({ namespace, name }) => namespace === WEB_NAMESPACE && name !== 'kubernetes',
  )
  return own.flatMap((service) =>
    service.clusterIPs
      .filter((ip) => /^\d/.test(ip))
      .flatMap((ip) => service.ports.flatMap(({ port }) => fromClient(ip, port))),
  )
}

/** Straight to the Pods behind them. */
function toPods(snapshot: Snapshot, node: string): Followed[] {
  const fromClient = clientOn(snapshot, node)
  const own = snapshot.objects.endpointSlices.filter(
    ({ namespace, serviceName }) => namespace === WEB_NAMESPACE && serviceName !== 'kubernetes',
  )
  return own.flatMap(({ endpoints, ports }) =>
    endpoints.flatMap(({ addresses }) => addresses.flatMap((ip) => ports.flatMap(({ port }) => fromClient(ip, port)))),
  )
}

/** To the agent's port on every ClusterIP. */
function toAgents(snapshot: Snapshot, node: string): Followed[] {
  const fromClient = clientOn(snapshot, node)
  return clusterIPs(snapshot).flatMap((ip) => fromClient(ip, AGENT_PORT))
}

/** From outside to this node's port of the Service that lab 3 exposes, and to its load balancer, where they are there. */
function fromOutside(snapshot: Snapshot, node: string): Followed[] {
  const ownAddress = snapshot.objects.nodes.find(({ name }) => name === node)?.internalIPs[0] ?? ''
  const to = (destination: string, port: number): Followed => {
    return { from: 'external', source: SOMEBODY_OUTSIDE, destination, port }
  }
  const port = unlessMissing(() => nodePortService(snapshot))
  const balancer = unlessMissing(() => loadBalancerService(snapshot))
  return [
    ...(port ? [to(ownAddress, port.nodePort)] : []),
    ...(balancer ? [to(balancer.address, balancer.port), to(ownAddress, balancer.nodePort)] : []),
  ]
}

function unlessMissing<Found>(find: () => Found): Found | undefined {
  try {
    return find()
  } catch (error) {
    if (error instanceof Failure) return undefined
    throw error
  }
}

/** From outside to the virtual servers that the learner made. */
function toServersByHand(snapshot: Snapshot, node: string): Followed[] {
  return snapshot
    .node(node)
    .state.virtualServers.filter(({ address }) => VIPS.includes(address))
    .map(({ address, port }) => ({ from: 'external', source: SOMEBODY_OUTSIDE, destination: address, port }))
}
