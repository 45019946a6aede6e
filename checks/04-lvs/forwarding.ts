import type { CheckContext } from '../../grading/check-context.ts'
import { expectNode, expectNodes } from '../../grading/expect-node.ts'
import { expectThat, NotApplicable, onNode } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import type { PacketTarget } from '../../grading/packet-trace.ts'
import type { Truth } from '../../grading/question.ts'
import { type NodeView, stateOf } from '../../grading/snapshot.ts'
import { type LvsNodes, lvsNodes, REAL_PORT, type RealNode, SHARED_VIP, VIP } from './lvs-nodes.ts'
import { expectAnswered, perform, requestTimes } from './outside-client.ts'
import {
  expectAddress,
  expectFirstServer,
  expectVirtualServer,
  requestFirstServer,
} from './virtual-server.ts'

type Method = keyof typeof REAL_PORT

/**
 * Of each forwarding method: the virtual server, the filter for its packets at a real server, and
 * how they arrive there.
 */
const METHODS = {
  masq: {
    address: VIP,
    filter: `tcp dst port ${REAL_PORT.masq}`,
    arrives: 'with the addresses of the director and of the real server',
  },
  route: {
    address: SHARED_VIP,
    filter: `dst host ${SHARED_VIP} and tcp dst port ${REAL_PORT.route}`,
    arrives: 'unchanged',
  },
  tunnel: {
    address: SHARED_VIP,
    filter: 'ip proto 4',
    arrives: 'unchanged, in a packet from the director to the real server',
  },
} as const
const CAPTURE_SECONDS = 6

/**
 * The hardware address of the interface that has an address; undefined if `ip` did not print it.
 */
const hardwareAddress = (node: NodeView, address: string): string | undefined =>
  stateOf(node).links.find(({ addresses }) => addresses.some((one) => one.address === address))
    ?.hardwareAddress

/** NAT: the director writes its own address and that of the real server into the packet. */
export async function natRewritesAddresses(context: CheckContext): Promise<void> {
  const lvs = await lvsNodes(context)
  expectFirstServer(lvs)
  if (!context.live) return
  await requestFirstServer(context.live, lvs, 2)
  await expectForwardedBy(context, lvs, 'masq')
}

/**
 * Direct routing: both real servers have the address and answer directly, and only the frame header
 * is new.
 */
export async function directRoutingAnswers(context: CheckContext): Promise<void> {
  await sharedAddressAnswers(context, await lvsNodes(context), 'route')
}

/**
 * Only in the initial user namespace, where all users are mapped, may root load modules
 * (user_namespaces(7)).
 */
const loadsModules = "grep -q '4294967295$' /proc/self/uid_map"

/** Tunnelling: the client's packet arrives unchanged, encapsulated in another one. */
export async function tunnelAnswers(context: CheckContext): Promise<void> {
  const lvs = await lvsNodes(context)
  const { live } = context
  for (const { node } of lvs.realServers) {
    const probe = await live?.readOnNode(
      node,
      `[ -d /sys/module/ipip ] || { ${loadsModules} && modprobe -n ipip; }`,
    )
    if (probe && probe.exitCode !== 0)
      throw new NotApplicable(`the kernel under ${node} has no IPIP (module ipip)`)
    expectNode(context.snapshot.node(node))
      .link('tunl0')
      .hasNoFault(
        (link) => [
          link ? (link.flags.includes('UP') ? undefined : 'it is down') : 'no such device',
        ],
        'tunl0 as a device that is up: it unpacks IP in IP',
        { next: onNode(node, 'modprobe ipip; ip link set tunl0 up') },
      )
  }
  await sharedAddressAnswers(context, lvs, 'tunnel')
}

async function sharedAddressAnswers(
  context: CheckContext,
  lvs: LvsNodes,
  method: 'route' | 'tunnel',
): Promise<void> {
  const { live, snapshot } = context
  const to = { address: SHARED_VIP, port: REAL_PORT[method] }
  expectVirtualServer(lvs, {
    key: `TCP ${SHARED_VIP}:${to.port}`,
    scheduler: 'rr',
    forward: method,
    weights: [1, 1],
  })
  expectAddress(lvs, SHARED_VIP)
  expectNodes(lvs.realServers.map(({ node }) => snapshot.node(node))).hasAddress(SHARED_VIP, {
    expected: `${SHARED_VIP} as an address of the real server's node, too`,
    why: 'The packet arrives with the virtual address as its destination. A node only accepts packets to its own addresses.',
  })
  if (!live) return
  const hint =
    'The answering node must have the address, and the answer goes directly to the client, not through the director.'
  await expectAnswered(live, lvs, requestTimes(2, to), { hint })
  await expectForwardedBy(context, lvs, method)
}

/**
 * The headers of a packet that the director has forwarded, as a pattern for what tcpdump -e prints
 * after the length: NAT writes new addresses, direct routing none, and a tunnel puts the packet
 * into another one.
 */
function headersOf(method: Method, { directorAddress }: LvsNodes, { address }: RealNode): string {
  const literal = (text: string) => text.replaceAll('.', '\\.')
  const [director, own] = [literal(directorAddress), literal(address)]
  const unchanged = `(?!${director}\\.)[\\d.]+ > ${literal(SHARED_VIP)}\\.${REAL_PORT[method]}`
  return {
    masq: `${director}\\.\\d+ > ${own}\\.${REAL_PORT.masq}`,
    route: unchanged,
    tunnel: `${director} > ${own}: (?:IP )?${unchanged}`,
  }[method]
}

/**
 * A captured frame of a real request at the first real server comes from the director, with the
 * headers of the method.
 */
async function expectForwardedBy(
  context: CheckContext,
  lvs: LvsNodes,
  method: Method,
): Promise<void> {
  const [server] = lvs.realServers
  if (!context.live || !server) return
  const { address, filter, arrives } = METHODS[method]
  const to = { address, port: REAL_PORT[method] }
  const frame = await frameAt(context.live, server, filter, to)
  const sender = hardwareAddress(lvs.director, lvs.directorAddress)
  const right = new RegExp(
    `^\\S+ ${sender ?? '\\S+'} > .*length \\d+: ${headersOf(method, lvs, server)}: Flags`,
  )
  expectThat(right.test(frame), {
    node: server.node,
    inspect: `kubectl exec ${server.pod} -c tools -- tcpdump -Z root -nn -e -i eth0 -c 1 ${filter}`,
    expected: `a packet for ${address}:${to.port} in a frame from the director${sender ? `, ${sender}` : ''}, ${arrives}`,
    actual: frame || 'no such packet arrived at the real server',
  })
  context.show([frame])
}

/**
 * The first SYN that matches the filter at a real server, while requests are sent, as tcpdump
 * prints it; empty if none arrives: `10:16:33.538180 72:54:… > 8a:6d:…, ethertype IPv4 (0x0800),
 * length 94: 172.18.0.2 > 172.18.0.3: 172.18.0.1.52588 > 192.0.2.11.8092: Flags [S]`
 */
async function frameAt(
  live: LiveCluster,
  { pod }: RealNode,
  filter: string,
  to: PacketTarget,
): Promise<string> {
  let over = false
  const place = { namespace: 'default', name: pod, container: 'tools' }
  const command = `timeout ${CAPTURE_SECONDS} tcpdump -Z root -l -nn -e -i eth0 '${filter}' 2>/dev/null | grep -m 1 -F 'Flags [S]'`
  const capturing = live.inPod(place, command).finally(() => {
    over = true
  })
  const deadline = Date.now() + CAPTURE_SECONDS * 1000
  // Both real servers get one of each pair; tcpdump does not report when it has started.
  const sending = async () => {
    while (!over && Date.now() < deadline) await perform(live, requestTimes(2, to))
  }
  const [{ stdout }] = await Promise.all([capturing, sending()])
  return /^.*Flags \[S\]/m.exec(stdout)?.[0] ?? ''
}

/** The hardware address that direct routing sends a packet to: one of the real servers' nodes. */
export async function frameDestination(context: CheckContext): Promise<Truth> {
  const lvs = await lvsNodes(context)
  const { realServers } = lvs
  const accepts = realServers.flatMap(
    ({ node, address }) => hardwareAddress(context.snapshot.node(node), address) ?? [],
  )
  const pod = realServers[0]?.pod ?? 'real-server-…'
  const inspect = `kubectl exec ${pod} -c tools -- tcpdump -Z root -nn -e -i eth0 -c 1 dst host ${SHARED_VIP}`
  const sender = hardwareAddress(lvs.director, lvs.directorAddress)
  return {
    accepts,
    inspect,
    wrong: [
      ...(sender === undefined
        ? []
        : [
            {
              when: sender,
              because:
                'That is the sender of the frame, the first of the two addresses. The second one is the destination.',
            },
          ]),
      {
        when: SHARED_VIP,
        because:
          'That is an IP address: the destination of the packet, which direct routing does not change. A frame has a hardware address.',
      },
    ],
    because:
      'The director sent an ARP request for the real server, not for the virtual address, and wrote the result into the frame.',
  }
}

/**
 * The client that real servers see behind NAT: the director, which masquerades forwarded packets.
 */
export async function seenClient(context: CheckContext): Promise<Truth> {
  const { directorAddress, realServers } = await lvsNodes(context)
  return {
    accepts: [directorAddress],
    inspect: 'kubectl logs -l app=real-server -c nginx --prefix --tail=2',
    wrong: [
      {
        when: VIP,
        because:
          'The virtual address was the destination, and NAT has replaced it. The log is about the source.',
      },
      ...realServers.map(({ address }) => ({
        when: address,
        because: 'That is a real server itself. Which machine sent it the packet?',
      })),
      {
        when: (answer: string) => /^\d+(\.\d+){3}$/.test(answer),
        because:
          "Is it the client's? Then its reply would go to the client directly, and the request would hang, as in step virtual-server.",
      },
    ],
    because:
      'The director masquerades, so that replies come back to it. To a real server all clients look alike.',
  }
}
