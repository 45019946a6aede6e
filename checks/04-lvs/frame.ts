// One frame as tcpdump prints it in one line with -e:
// 10:16:33.538180 72:54:… > 8a:6d:…, ethertype IPv4 (0x0800), length 94: 172.18.0.2 > 172.18.0.3: 172.18.0.1.52588 > 192.0.2.11.8092: Flags [S], …

import { z } from 'zod'
import type { NodeView } from '../../grading/snapshot.ts'

/** The head of a frame that carries a TCP segment, perhaps within another packet. */
export interface Frame {
  fromHardware: string
  toHardware: string
  length: number
  /** Addresses of the packet around it, when there is one. */
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
export function parseFrames(stdout: string): Frame[] {
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

/** The hardware address of the interface that has an address; undefined where `ip` did not say. */
export function hardwareAddress(node: NodeView, address: string): string | undefined {
  const read = linksSchema.safeParse(JSON.parse(node.text('ip-addr.json') ?? '[]'))
  const links = read.success ? read.data : []
  return links.find(({ addr_info = [] }) => addr_info.some(({ local }) => local === address))?.address
}
