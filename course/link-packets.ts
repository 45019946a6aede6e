// A real packet on each link that it passes: copies of the first packets of connections, from the
// interfaces of the nodes.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Cluster } from '../cluster/driver.ts'
import { runOnNode } from '../cluster/node-script.ts'
import { projectRoot } from '../host/layout.ts'
import { shellWord } from '../host/shell-word.ts'
import { isMetWithin } from '../host/wait.ts'

/** A packet on one link. */
export interface LinkPacket {
  node: string
  /** The interface of the node, and whether the packet came in by it or went out. */
  device: string
  direction: 'in' | 'out'
  source: string
  sourcePort: number
  destination: string
  port: number
  /** TCP's initial sequence number, which no translation of addresses changes. */
  sequence: number
  /** The frame from its Ethernet header on, in hexadecimal. */
  bytes: string
}

const SECONDS = 6
const IDLE_SECONDS = 0.6
const MOST = 400
const READY_MS = 3000
const PROGRAM = join(projectRoot, 'course/link-packets.pl')

/**
 * Copies the packets of the nodes while `send` sends some. Returns what `send` does, and the
 * packets, node by node; none from a node without perl, or where the cluster forbids packet
 * sockets.
 */
export async function copyPackets<T>(
  cluster: Cluster,
  nodes: readonly string[],
  send: () => Promise<T>,
): Promise<{ sent: T; packets: LinkPacket[] }> {
  const script = `exec perl -e ${shellWord(readFileSync(PROGRAM, 'utf8'))} ${SECONDS} ${IDLE_SECONDS} ${MOST}`
  let copying = nodes.length
  const copies = nodes.map((node) =>
    runOnNode(cluster, node, script, { readOnly: true, timeoutMs: 20_000 })
      .then(({ stdout }) => parseLinkPackets(node, stdout))
      .catch((): LinkPacket[] => [])
      .finally(() => {
        copying--
      }),
  )
  // Packet sockets are listed in /proc/net/packet (a heading, then a line each).
  await isMetWithin(READY_MS, async () => {
    if (copying < nodes.length) return true
    const listed = await Promise.all(
      nodes.map((node) =>
        runOnNode(cluster, node, 'wc -l </proc/net/packet', { readOnly: true }).then(
          ({ stdout }) => Number(stdout) > 1,
          () => true,
        ),
      ),
    )
    return listed.every(Boolean)
  })
  const sent = await send()
  const packets = (await Promise.all(copies)).flat()
  return { sent, packets }
}

const LINE = /^(\S+) (in|out) ([0-9a-f]{108,})$/

/**
 * Reads what link-packets.pl prints; lines of another form, as a broken program prints them, are
 * left out.
 */
export function parseLinkPackets(node: string, text: string): LinkPacket[] {
  return text.split('\n').flatMap((line) => {
    const [, device, direction = 'in', hex = ''] = LINE.exec(line) ?? []
    if (device === undefined) return []
    const bytes = Buffer.from(hex, 'hex')
    const tcp = 14 + (bytes.readUInt8(14) & 15) * 4
    if (bytes.length < tcp + 20) return []
    const address = (from: number) => [...bytes.subarray(from, from + 4)].join('.')
    return [
      {
        node,
        device,
        direction: direction as LinkPacket['direction'],
        source: address(26),
        sourcePort: bytes.readUInt16BE(tcp),
        destination: address(30),
        port: bytes.readUInt16BE(tcp + 2),
        sequence: bytes.readUInt32BE(tcp + 4),
        bytes: hex,
      },
    ]
  })
}

/**
 * One packet on its way: the same sequence number on each link, node by node in the order of
 * `nodes`, and on a node first where it came in. Of several that go to one of the addresses
 * (`10.96.0.10:53`), the one that passed the most links; a retransmission counts once.
 */
export function packetOnItsWay(
  packets: readonly LinkPacket[],
  nodes: readonly string[],
  addresses: readonly string[],
): LinkPacket[] {
  const isAt = (one: LinkPacket) => (other: LinkPacket) =>
    one.node === other.node && one.device === other.device && one.direction === other.direction
  const ways = new Map<number, LinkPacket[]>()
  for (const packet of packets) {
    const way = ways.get(packet.sequence) ?? []
    if (!way.some(isAt(packet))) ways.set(packet.sequence, [...way, packet])
  }
  const best = [...ways.values()]
    .filter((way) =>
      way.some(({ destination, port }) => addresses.includes(`${destination}:${port}`)),
    )
    .reduce<LinkPacket[]>((most, way) => (way.length > most.length ? way : most), [])
  const rank = ({ node, direction }: LinkPacket) =>
    2 * nodes.indexOf(node) + (direction === 'in' ? 0 : 1)
  return best.toSorted((one, other) => rank(one) - rank(other))
}
