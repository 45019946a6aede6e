import { hasCondition } from '../../grading/api-object.ts'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectNode } from '../../grading/expect-node.ts'
import { podsWithLabel } from '../../grading/expect-object.ts'
import { expectFound, NotApplicable } from '../../grading/failure.ts'
import {
  CONTROL_PLANE,
  controlPlaneOf,
  filesOf,
  type NodeView,
  nodeAddressOf,
} from '../../grading/snapshot.ts'
import { OUTSIDE } from '../../host/outside.ts'

// Addresses from reserved ranges: TEST-NET-1 (RFC 5737) and the range for benchmarks (RFC 2544).

/** The address of the virtual servers that forward by NAT. Only the director has it. */
export const VIP = '192.0.2.10'
/**
 * The address of those that forward by direct routing or through a tunnel; the real servers also
 * have it.
 */
export const SHARED_VIP = '192.0.2.11'
/** The addresses that kube-proxy must not touch. */
export const VIPS = [VIP, SHARED_VIP]
/** The maximum number of clients, and of destinations. */
export const NETWORK_SIZE = 2 ** 16
/** Client addresses from 198.18.0.0/16, which the machine outside can send from. */
export const clientAddress = (number: number) => `198.18.${hostPart(number)}`
/** Destination addresses from 198.19.0.0/16, which the director accepts by firewall mark. */
export const destinationAddress = (number: number) => `198.19.${hostPart(number)}`

/**
 * Scatters consecutive numbers over the network, because a multiplicative hash of neighbours would
 * look regular.
 */
function hostPart(number: number): string {
  const product = (number * 28_411) % NETWORK_SIZE
  const scattered = ((product ^ (product >> 7)) * 31_337) % NETWORK_SIZE
  return `${scattered >> 8}.${scattered & 255}`
}

/**
 * The ports of real servers. Direct routing and tunnels keep the port, so each method has its own.
 */
export const REAL_PORT = { masq: 8090, route: 8091, tunnel: 8092 } as const

/**
 * A second real server on each node, on a distant port: mh hashes port plus address, so neighbours
 * could be equal (ip_vs_mh_hashkey).
 */
export const SECOND_PORT = 8990

/** Scheduler → port of its virtual server, or the firewall mark that equals the port. */
export const PORT = {
  rr: 8101,
  wrr: 8102,
  lc: 8103,
  wlc: 8104,
  sed: 8105,
  nq: 8106,
  sh: 8107,
  mh: 8108,
  dh: 8109,
  lblc: 8110,
  lblcr: 8111,
} as const

/** The port of the virtual server that lacks one of the real servers. */
export const withoutOne = (port: number) => port + 10

const MANIFEST = 'labs/04-lvs/manifests/real-server.yaml'

/** The nodes and their roles in this lab. */
export interface LvsNodes {
  director: NodeView
  directorAddress: string
  /** One on each worker, in the order of the nodes' names. */
  realServers: RealNode[]
}

export interface RealNode {
  node: string
  address: string
  pod: string
}

/**
 * Director and real servers. Fails when one is missing; not applicable without IPVS in the kernel
 * or a machine outside.
 */
export async function lvsNodes(context: CheckContext): Promise<LvsNodes> {
  const { snapshot, live } = context
  if (live && !live.cluster.capabilities.hasOutside)
    throw new NotApplicable(
      `it needs a machine outside the cluster, which only the embedded and kind clusters have ("${OUTSIDE}")`,
    )
  const director = expectFound(controlPlaneOf(snapshot), {
    inspect: `kubectl get nodes -l ${CONTROL_PLANE}`,
    expected: 'a control-plane node, which is the director of this lab',
  })
  await expectIpvs(context, director)
  const ready = readyRealServers(context)
  const realServers = expectFound(ready.length < 2 ? undefined : ready.slice(0, 2), {
    inspect: 'kubectl get pods -l app=real-server -o wide',
    expected: 'a real server that is ready on each of two workers',
    actual: ready.length === 0 ? 'none' : `one, on ${ready[0]?.node}`,
    next: `kubectl apply -f ${MANIFEST}`,
  })
  const directorAddress = nodeAddressOf(snapshot, director.name)
  return { director, directorAddress, realServers }
}

function readyRealServers({ snapshot }: CheckContext): RealNode[] {
  return podsWithLabel(snapshot, 'real-server')
    .filter((pod) => hasCondition(pod, 'Ready'))
    .map(({ metadata, spec, status }) => {
      return { node: spec?.nodeName ?? '', address: status?.podIP ?? '', pod: metadata.name }
    })
    .sort((one, other) => one.node.localeCompare(other.node))
}

/** ipvsadm runs on the director; not applicable on a kernel without ip_vs. */
async function expectIpvs({ live }: CheckContext, director: NodeView): Promise<void> {
  if (filesOf(director).get('ipvsadm-save') !== undefined) return
  const probe = await live?.onNode(director.name, '[ -e /proc/net/ip_vs ] || modprobe ip_vs')
  if (probe && probe.exitCode !== 0)
    throw new NotApplicable(
      `the kernel under ${director.name} has no IPVS (module ip_vs); CLUSTER=embedded has it`,
    )
  expectNode(director).run({ ipvsadm: 'ipvsadm-save' }, 'ipvsadm -Ln', {
    expected: 'ipvsadm running on the director',
    next: 'make tools',
  })
}
