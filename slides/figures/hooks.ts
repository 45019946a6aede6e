import type { Hook } from '../../dataplane/trace/step.ts'
import { wrapText } from '../build/text-width.ts'
import { type Box, Canvas, type Drawing, type Figure, type Side, TALL, TEXT, WIDE } from './canvas.ts'

/** A place in a packet's path on a node: one of the five hooks, or a step between them. */
export type Place = Hook | 'in' | 'routing' | 'process' | 'out'

/** The packet's path, and a remark for each hook that it passes. */
export interface HookFigure {
  path: readonly Place[]
  /** The name of the place between INPUT and OUTPUT. */
  local: string
  legend: readonly { hook: string; text: string }[]
  label: string
}

/** The kernel's three paths (net/netfilter hooks, in the order in which ip_rcv, ip_forward and ip_output call them). */
export const PATHS: Readonly<Record<'in' | 'forward' | 'out' | 'none', readonly Place[]>> = {
  in: ['in', 'PREROUTING', 'routing', 'INPUT', 'process'],
  forward: ['in', 'PREROUTING', 'routing', 'FORWARD', 'POSTROUTING', 'out'],
  out: ['process', 'OUTPUT', 'POSTROUTING', 'out'],
  none: [],
}

type Layout = Readonly<Record<Place, Box>>
type Edge = readonly [from: Place, out: Side, to: Place, into: Side]

const ROW = 58

const WIDE_LAYOUT: Layout = {
  in: { x: 0, y: 176, width: 66, height: ROW },
  PREROUTING: { x: 136, y: 176, width: 186, height: ROW },
  routing: { x: 392, y: 176, width: 128, height: ROW },
  INPUT: { x: 394, y: 88, width: 124, height: ROW },
  process: { x: 605, y: 0, width: 150, height: ROW },
  FORWARD: { x: 590, y: 176, width: 140, height: ROW },
  OUTPUT: { x: 840, y: 88, width: 124, height: ROW },
  POSTROUTING: { x: 800, y: 176, width: 204, height: ROW },
  out: { x: 1074, y: 176, width: 78, height: ROW },
}

const TALL_LAYOUT: Layout = {
  in: { x: 60, y: 0, width: 80, height: 42 },
  PREROUTING: { x: 0, y: 76, width: 206, height: ROW },
  routing: { x: 38, y: 174, width: 130, height: ROW },
  INPUT: { x: 310, y: 174, width: 120, height: ROW },
  process: { x: 295, y: 272, width: 150, height: ROW },
  FORWARD: { x: 33, y: 272, width: 140, height: ROW },
  OUTPUT: { x: 308, y: 370, width: 124, height: ROW },
  POSTROUTING: { x: 0, y: 468, width: 206, height: ROW },
  out: { x: 63, y: 566, width: 80, height: 42 },
}

const WIDE_EDGES: readonly Edge[] = [
  ['in', 'e', 'PREROUTING', 'w'],
  ['PREROUTING', 'e', 'routing', 'w'],
  ['routing', 'n', 'INPUT', 's'],
  ['INPUT', 'n', 'process', 'w'],
  ['routing', 'e', 'FORWARD', 'w'],
  ['FORWARD', 'e', 'POSTROUTING', 'w'],
  ['process', 'e', 'OUTPUT', 'n'],
  ['OUTPUT', 's', 'POSTROUTING', 'n'],
  ['POSTROUTING', 'e', 'out', 'w'],
]

const TALL_EDGES: readonly Edge[] = [
  ['in', 's', 'PREROUTING', 'n'],
  ['PREROUTING', 's', 'routing', 'n'],
  ['routing', 'e', 'INPUT', 'w'],
  ['INPUT', 's', 'process', 'n'],
  ['routing', 's', 'FORWARD', 'n'],
  ['FORWARD', 's', 'POSTROUTING', 'n'],
  ['process', 's', 'OUTPUT', 'n'],
  ['OUTPUT', 's', 'POSTROUTING', 'e'],
  ['POSTROUTING', 's', 'out', 'n'],
]

/** Netfilter's five hooks with the path of one packet, and a line for each hook with a remark. */
export function hooksFigure(figure: HookFigure): Figure {
  return {
    wide: draw(figure, WIDE, WIDE_LAYOUT, WIDE_EDGES),
    tall: draw(figure, TALL, TALL_LAYOUT, TALL_EDGES),
    label: figure.label,
  }
}

function draw({ path, local, legend }: HookFigure, width: number, layout: Layout, edges: readonly Edge[]): Drawing {
  const canvas = new Canvas(width)
  const taken = new Set(path.slice(1).map((place, index) => `${path[index]} ${place}`))
  const whole = path.length === 0
  for (const [from, out, to, into] of edges) {
    if (!taken.has(`${from} ${to}`)) canvas.connect(layout[from], out, layout[to], into, whole ? 'plain' : 'faint')
  }
  for (const [from, out, to, into] of edges) {
    if (taken.has(`${from} ${to}`)) canvas.connect(layout[from], out, layout[to], into, 'path')
  }
  for (const [place, box] of Object.entries(layout) as [Place, Box][]) {
    const passed = path.includes(place)
    const hook = place === place.toUpperCase()
    const tone = passed ? (hook ? 'path' : 'plain') : whole && hook ? 'path' : whole ? 'plain' : 'faint'
    canvas.box(box, [place === 'process' ? local : place], { tone, face: hook ? 'mono' : 'sans' })
  }
  writeLegend(canvas, legend, width, Math.max(...Object.values(layout).map(({ y, height }) => y + height)) + 40)
  return canvas.finish()
}

function writeLegend(canvas: Canvas, legend: HookFigure['legend'], width: number, top: number): void {
  const beside = width >= WIDE
  const left = beside ? 220 : 0
  let y = top
  for (const { hook, text } of legend) {
    canvas.text(hook, 0, y, { face: 'mono', tone: 'path' })
    if (!beside) y += 36
    for (const line of wrapText(text, width - left - 8, TEXT)) {
      canvas.text(line, left, y)
      y += 34
    }
    if (!beside) y += 8
  }
}
