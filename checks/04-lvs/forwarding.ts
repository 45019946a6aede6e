// One frame as tcpdump prints it in one line with -e:
// 10:16:33.538180 72:54:… > 8a:6d:…, ethertype IPv4 (0x0800), length 94: 172.18.0.2 > 172.18.0.3: 172.18.0.1.52588 > 192.0.2.11.8092: Flags [S], …

import { z } from 'zod'
import type { CheckContext } from '../../grading/check-context.ts'
import { expectNode, expectNodes } from '../../grading/expect-node.ts'
import { expectThat, NotApplicable } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { Truth } from '../../grading/question.ts'
import { filesOf, type NodeView } from '../../grading/snapshot.ts'
import { type LvsNodes, lvsNodes, REAL_PORT, type RealNode, SHARED_VIP, VIP } from './lvs-nodes.ts'
import { expectAnswers, perform, requests } from './outside-client.ts'
import { expectAddress, expectFirstServer, expectVirtualServer, requestFirstServer } from './virtual-server.ts'

/** The headers of a frame with a TCP segment, possibly encapsulated in another packet. */
interface Frame {
  fromHardware: string
  toHardware: string
  length: number
  /** Addresses of the outer packet, if encapsulated. */
  outer?: { from: string; to: string }
  from: string
  to: string
  port: number
}

const HARDWARE = '((?:[0-9a-f]{2}:){5}[0-9a-f]{2})'
const ADDRESS = '(\\d+\\.\\d+\\.\\d+\\.\\d+)'
const FRAME = new RegExp(
  `${HARDWARE} > ${HARDWARE}, .*?length (\\d+): (?:${ADDRESS} > ${ADDRESS}: (?:IP )?)?${ADDRESS}\\.\\d+ > ${ADDRESS}\\.(\\d+): Flags`,
  'gm',
)

/** The frames in tcpdump's output that carry TCP over IPv4. */
function parseFrames(stdout: string): Frame[] {
  return [...stdout.matchAll(FRAME)].map((match) => {
    const [, fromHardware = '', toHardware = '', length, outerFrom, outerTo, from = '', to = '', port] = match
    const outer = outerFrom && outerTo ? { outer: { from: outerFrom, to: outerTo } } : {}
    return { fromHardware, toHardware, length: Number(length), ...outer, from, to, port: Number(port) }
  })
}

const linksSchema = z.array(
  z.looseObject({
    address: z.string().optional(),
    addr_info: z.array(z.looseObject({ local: z.string().optional() })).optional(),
  }),
)

/** The hardware address of the interface that has an address; undefined if `ip` did not print it. */
function hardwareAddress(node: NodeView, address: string): string | undefined {
  const read = linksSchema.safeParse(JSON.parse(filesOf(node).get('ip-addr.json') ?? '[]'))
  const links = read.success ? read.data : []
  return links.find(({ addr_info = [] }) => addr_info.some(({ local }) => local === address))?.address
}

type Method = keyof typeof REAL_PORT

const VIP_OF = { masq: VIP, route: SHARED_VIP, tunnel: SHARED_VIP } as const
const FILTER = {
  masq: `tcp dst port ${REAL_PORT.masq}`,
  route: `dst host ${SHARED_VIP} and tcp dst port ${REAL_PORT.route}`,
  tunnel: 'ip proto 4',
} as const
const CAPTURE_SECONDS = 6

/** NAT: the director writes its own address and that of the real server into the packet. */
export async function natRewritesAddresses(context: CheckContext): Promise<void> {
  const lvs = await lvsNodes(context)
  expectFirstServer(lvs)
  if (!context.live) return
  await requestFirstServer(context.live, lvs, 2)
  await expectForwardedBy(context, lvs, 'masq')
}

/** Direct routing: both real servers have the address and answer directly, and only the frame header is new. */
export async function directRoutingAnswers(context: CheckContext): Promise<void> {
  await sharedAddressAnswers(context, await lvsNodes(context), 'route')
}

/** Only in the initial user namespace, where all users are mapped, may root load modules (user_namespaces(7)). */
const loadsModules = "grep -q '4294967295$' /proc/self/uid_map"

/** Tunnelling: the client's packet arrives unchanged, encapsulated in another one. */
export async function tunnelAnswers(context: CheckContext): Promise<void> {
  const lvs = await lvsNodes(context)
  const { live } = context
  for (const { node } of lvs.realServers) {
    const probe = await live?.look(node, `[ -d /sys/module/ipip ] || { ${loadsModules} && modprobe -n ipip; }`)
    if (probe && probe.exitCode !== 0) throw new NotApplicable(`the kernel under ${node} has no IPIP (module ipip)`)
    expectNode(context.snapshot.node(node))
      .link('tunl0')
      .hasNoFault(
        (link) => [link ? (link.flags.includes('UP') ? undefined : 'it is down') : 'no such device'],
        'tunl0 as a device that is up: it unpacks IP in IP',
        { hint: `modprobe ipip; ip link set tunl0 up, on ${node}` },
      )
  }
  await sharedAddressAnswers(context, lvs, 'tunnel')
}

async function sharedAddressAnswers(context: CheckContext, lvs: LvsNodes, method: 'route' | 'tunnel'): Promise<void> {
  const { live, snapshot } = context
  const to = `${SHARED_VIP}:${REAL_PORT[method]}`
  expectVirtualServer(lvs, { key: `TCP ${to}`, scheduler: 'rr', forward: method, weights: [1, 1] })
  expectAddress(lvs, SHARED_VIP)
  expectNodes(lvs.realServers.map(({ node }) => snapshot.node(node))).hasAddress(SHARED_VIP, {
    expected: `${SHARED_VIP} as an address of the real server's node, too`,
    why: 'The packet arrives with the virtual address as its destination. A node only accepts packets to its own addresses.',
  })
  if (!live) return
  const hint =
    'The answering node must have the address, and the answer goes directly to the client, not through the director.'
  await expectAnswers(live, lvs, requests(2, to), hint)
  await expectForwardedBy(context, lvs, method)
}

/** What is wrong with a frame that arrived at a real server by this method; undefined if it is correct. */
function faultOf(
  frame: Frame,
  method: Method,
  { directorAddress }: LvsNodes,
  { address }: RealNode,
): string | undefined {
  const wanted = method === 'masq' ? address : SHARED_VIP
  if (frame.to !== wanted) return `it is addressed to ${frame.to}, not to ${wanted}`
  if (method === 'masq')
    return frame.from === directorAddress ? undefined : `it comes from ${frame.from}, not from ${directorAddress}`
  if (frame.from === directorAddress) return `it comes from the director, ${directorAddress}, not from the client`
  if (method === 'route') return frame.outer ? 'it is encapsulated in another packet' : undefined
  const { outer } = frame
  const packed = outer?.from === directorAddress && outer.to === address
  return packed ? undefined : `it is not encapsulated in a packet from ${directorAddress} to ${address}`
}

/** A captured frame of a real request at the first real server has the headers of its method and comes from the director. */
async function expectForwardedBy(context: CheckContext, lvs: LvsNodes, method: Method): Promise<void> {
  const [server] = lvs.realServers
  if (!context.live || !server) return
  const to = `${VIP_OF[method]}:${REAL_PORT[method]}`
  const frame = await frameAt(context.live, server, FILTER[method], to)
  const sender = hardwareAddress(lvs.director, lvs.directorAddress)
  const fault =
    frame &&
    (sender !== undefined && frame.fromHardware !== sender
      ? `it comes from the hardware address ${frame.fromHardware}, not from the director's, ${sender}`
      : faultOf(frame, method, lvs, server))
  expectThat(frame && !fault, {
    node: server.node,
    inspect: `kubectl exec ${server.pod} -c tools -- tcpdump -Z root -nn -e -i eth0 -c 1 ${FILTER[method]}`,
    expected: `a packet for ${to} that the director has forwarded by ${method}`,
    actual: fault ?? 'no such packet arrived at the real server',
  })
  context.show([printFrame(frame)])
}

const printFrame = ({ fromHardware, toHardware, length, outer, from, to, port }: Frame): string =>
  `${fromHardware} → ${toHardware}, ${length} bytes: ${outer ? `${outer.from} → ${outer.to}: ` : ''}${from} → ${to}:${port}`

/** The first SYN that matches the filter at a real server, while requests are sent. */
async function frameAt(live: LiveCluster, { pod }: RealNode, filter: string, to: string): Promise<Frame | undefined> {
  let over = false
  const place = { namespace: 'default', name: pod, container: 'tools' }
  const command = `timeout ${CAPTURE_SECONDS} tcpdump -Z root -l -nn -e -i eth0 '${filter}' 2>/dev/null | grep -m 1 -F 'Flags [S]'`
  const capturing = live.inPod(place, command).finally(() => {
    over = true
  })
  const deadline = Date.now() + CAPTURE_SECONDS * 1000
  // Both real servers get one of each pair; tcpdump does not report when it has started.
  const sending = async () => {
    while (!over && Date.now() < deadline) await perform(live, requests(2, to))
  }
  const [{ stdout }] = await Promise.all([capturing, sending()])
  return parseFrames(stdout)[0]
}

/** The hardware address that direct routing sends a packet to: one of the real servers' nodes. */
export async function frameDestination(context: CheckContext): Promise<Truth> {
  const { realServers } = await lvsNodes(context)
  const accepts = realServers.flatMap(
    ({ node, address }) => hardwareAddress(context.snapshot.node(node), address) ?? [],
  )
  const pod = realServers[0]?.pod ?? 'real-server-…'
  const inspect = `kubectl exec ${pod} -c tools -- tcpdump -Z root -nn -e -i eth0 -c 1 dst host ${SHARED_VIP}`
  return { accepts, inspect }
}

/** The client that real servers see behind NAT: the director, which masquerades forwarded packets. */
export async function seenClient(context: CheckContext): Promise<Truth> {
  const { directorAddress } = await lvsNodes(context)
  return { accepts: [directorAddress], inspect: 'kubectl logs -l app=real-server -c nginx --prefix --tail=2' }
}
