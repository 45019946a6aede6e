// One machine of a packet's journey: its Pods, its process, the kernel with Netfilter's hooks and
// IPVS, and the lines between them.

import type { Station } from '../../dataplane/view/journey.ts'
import { textWidth } from './canvas.ts'

export type Corner = readonly [x: number, y: number]

/** The measures of a machine; places inside have the machine's own coordinates. */
export const PANEL = { width: 620, height: 392, wire: 300 } as const

/**
 * Where something of a journey is: a place of a station, or the interface at one of the two sides.
 */
export type Spot =
  | 'sender'
  | 'receiver'
  | 'process'
  | 'PREROUTING'
  | 'INPUT'
  | 'IPVS'
  | 'FORWARD'
  | 'OUTPUT'
  | 'POSTROUTING'
  | 'left'
  | 'right'

interface Area {
  x: number
  y: number
  width: number
  height: number
}

const area = (x: number, y: number, width: number, height: number): Area => ({
  x,
  y,
  width,
  height,
})

/** What is drawn as a box. */
export const AREAS: Readonly<Record<Exclude<Spot, 'left' | 'right'>, Area>> = {
  sender: area(20, 50, 184, 58),
  receiver: area(416, 50, 184, 58),
  process: area(236, 50, 148, 58),
  PREROUTING: area(60, 278, 144, 44),
  INPUT: area(198, 184, 88, 44),
  IPVS: area(316, 184, 76, 44),
  FORWARD: area(276, 278, 110, 44),
  OUTPUT: area(424, 184, 98, 44),
  POSTROUTING: area(414, 278, 146, 44),
}

/** The kernel, inside of the machine. */
export const KERNEL_AREA = area(20, 148, 580, 232)

/** The lines to and from Pods. */
export const VETH = { sender: 92, receiver: 540 } as const

/**
 * The lines that a packet can take, from one spot to the next (ip_rcv, ip_local_deliver, ip_forward
 * and ip_output call the hooks so).
 */
const LINES: readonly (readonly [from: Spot, to: Spot, ...points: Corner[]])[] = [
  ['sender', 'PREROUTING', [VETH.sender, 108], [VETH.sender, 278]],
  ['left', 'PREROUTING', [0, PANEL.wire], [60, PANEL.wire]],
  ['PREROUTING', 'INPUT', [204, 300], [242, 300], [242, 228]],
  ['PREROUTING', 'FORWARD', [204, 300], [276, 300]],
  ['INPUT', 'IPVS', [286, 206], [316, 206]],
  ['INPUT', 'process', [242, 184], [242, 128], [270, 128], [270, 108]],
  ['IPVS', 'OUTPUT', [392, 214], [424, 214]],
  ['OUTPUT', 'IPVS', [424, 198], [392, 198]],
  ['IPVS', 'POSTROUTING', [380, 228], [380, 254], [440, 254], [440, 278]],
  ['process', 'OUTPUT', [350, 108], [350, 128], [472, 128], [472, 184]],
  ['FORWARD', 'POSTROUTING', [386, 300], [414, 300]],
  ['OUTPUT', 'POSTROUTING', [490, 228], [490, 278]],
  ['POSTROUTING', 'receiver', [VETH.receiver, 278], [VETH.receiver, 108]],
  ['POSTROUTING', 'right', [560, PANEL.wire], [PANEL.width, PANEL.wire]],
]

/** Drawn on every machine; the others only where the packet takes them. */
const USUAL = new Set([
  'PREROUTING INPUT',
  'PREROUTING FORWARD',
  'FORWARD POSTROUTING',
  'OUTPUT POSTROUTING',
])

/** The points from one spot to another; a straight line where the kernel has no such way. */
export function lineBetween(from: Spot, to: Spot): readonly Corner[] {
  const [, , ...points] = LINES.find(([one, other]) => one === from && other === to) ?? [from, to]
  return points.length > 0 ? points : [middleOf(from), middleOf(to)]
}

/** The lines of every machine. */
export const usualLines = (): (readonly Corner[])[] =>
  LINES.filter(([from, to]) => USUAL.has(`${from} ${to}`)).map(([, , ...points]) => points)

/** The middle of a spot. */
export function middleOf(spot: Spot): Corner {
  if (spot === 'left') return [0, PANEL.wire]
  if (spot === 'right') return [PANEL.width, PANEL.wire]
  const { x, y, width, height } = AREAS[spot]
  return [x + width / 2, y + height / 2]
}

/** The spot of a station that is on a machine; `isFirst` if the packet is sent there. */
export function spotOf({ place }: Station, isFirst: boolean): Spot {
  if (place === 'Pod') return isFirst ? 'sender' : 'receiver'
  return place === 'wire' || place === 'outside' ? 'left' : place
}

/**
 * The right edge of the tags above OUTPUT: at their right is the interface of the Pod that
 * receives.
 */
const LEFT_OF_VETH = 476

/**
 * Where the tags of a place are: below it, for INPUT and OUTPUT above it. Their middles, but for
 * OUTPUT their right edges.
 */
export function tagPlaces(spot: Spot, count: number): Corner[] {
  const x = isTagEnd(spot) ? LEFT_OF_VETH : middleOf(spot)[0]
  const isAbove = spot === 'INPUT' || spot === 'OUTPUT'
  const below = spot === 'IPVS' ? 246 : 340
  return Array.from({ length: count }, (_, index) => [
    x,
    isAbove ? 168 - (count - 1 - index) * 22 : below + index * 22,
  ])
}

/** Whether the places of tags are their right edges. */
export const isTagEnd = (spot: Spot): boolean => spot === 'OUTPUT'

/** The size at which a line of text fits into a width, in px. */
export function sizeFor(
  text: string,
  width: number,
  usual: number,
  face: 'sans' | 'bold' | 'mono',
): number {
  const needed = textWidth(text, usual, face)
  return needed <= width ? usual : Math.max(9, Math.floor((usual * width * 10) / needed) / 10)
}
