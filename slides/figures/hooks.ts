import type { Place } from '../../dataplane/view/packet-path.ts'
import { type Box, type Canvas, type Figure, figure, type Side, TEXT, type Tone, wrapText } from './canvas.ts'

/** Where a packet goes, and a row for each hook that it passes. */
export interface HookFigure {
  legs: readonly (readonly [from: Place, to: Place])[]
  /** The hook that stops the packet. */
  stop?: Place
  /** The name of the place between INPUT and OUTPUT. */
  local: string
  rows: readonly HookRow[]
  /** Rows without boxes, one below the other: for a slide. */
  brief?: boolean
  label: string
}

/** A box with what happened there. */
export interface HookRow {
  title: string
  tone: Tone
  lines: readonly { text: string; tone?: Tone }[]
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

/** The way along places as legs. */
export const legsAlong = (path: readonly Place[]): [Place, Place][] =>
  path.slice(1).map((place, index) => [path[index] as Place, place])

/** Netfilter's five hooks with the path of one packet, and a row for each hook with what happens there. */
export function hooksFigure(packet: HookFigure): Figure {
  return figure(packet.label, (canvas, isWide) => {
    const layout = isWide ? WIDE_LAYOUT : TALL_LAYOUT
    drawHooks(canvas, packet, layout, isWide ? WIDE_EDGES : TALL_EDGES)
    const bottom = Math.max(...Object.values(layout).map(({ y, height }) => y + height))
    drawRows(canvas, packet, bottom + 44, isWide)
  })
}

function drawHooks(canvas: Canvas, { legs, stop, local }: HookFigure, layout: Layout, edges: readonly Edge[]): void {
  const passed = new Set<Place>(legs.flat())
  const isWhole = legs.length === 0
  const isTaken = ([from, , to]: Edge) => legs.some((leg) => leg[0] === from && leg[1] === to)
  // The path is drawn last, over the lines that it crosses.
  for (const edge of [...edges.filter((one) => !isTaken(one)), ...edges.filter(isTaken)]) {
    const [from, out, to, into] = edge
    canvas.connect(layout[from], out, layout[to], into, isTaken(edge) ? 'path' : isWhole ? 'plain' : 'faint')
  }
  for (const [place, box] of Object.entries(layout) as [Place, Box][]) {
    const isHook = place === place.toUpperCase()
    const tone = !isWhole && !passed.has(place) ? 'faint' : !isHook ? 'plain' : place === stop ? 'bad' : 'path'
    canvas.box(box, [place === 'process' ? local : place], tone, isHook ? 'mono' : 'sans')
    if (place === stop) canvas.text('✗', box.x + box.width + 2, box.y + 16, { face: 'bold', tone: 'bad' })
  }
}

const TITLE_WIDTH = 206
const TITLE_HEIGHT = 46
const LINE = 34

/** Rows from the top down, an arrow from each title to the next: in a wide figure the lines are beside their title, else below. */
function drawRows(canvas: Canvas, { rows, brief = false }: HookFigure, top: number, isWide: boolean): void {
  const left = isWide ? TITLE_WIDTH + (brief ? 14 : 26) : brief ? 0 : 30
  const height = brief ? LINE : TITLE_HEIGHT
  let y = top
  for (const [index, { title, tone, lines }] of rows.entries()) {
    if (brief) canvas.text(title, 0, y, { face: 'mono', tone })
    else canvas.box({ x: 0, y, width: TITLE_WIDTH, height }, [title], tone, 'mono')
    let line = y + (brief ? 0 : 32) + (isWide ? 0 : height)
    for (const { text, tone: colour = 'plain' } of lines)
      for (const part of wrapText(text, canvas.width - left - 8, TEXT)) {
        canvas.text(part, left, line, { tone: colour })
        line += LINE
      }
    const bottom = Math.max(y + height, line - (brief ? 0 : LINE - 14))
    const next = bottom + (brief ? 0 : 24)
    const middle = isWide ? TITLE_WIDTH / 2 : 12
    if (!brief && index < rows.length - 1)
      canvas.arrow(
        [
          [middle, y + height],
          [middle, next],
        ],
        'path',
      )
    y = next
  }
}
