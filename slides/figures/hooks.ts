import type { Place } from '../../dataplane/view/packet-path.ts'
import { wrapText } from '../build/text-width.ts'
import { type Box, Canvas, type Drawing, type Figure, type Side, TALL, TEXT, type Tone, WIDE } from './canvas.ts'

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
export function hooksFigure(figure: HookFigure): Figure {
  return {
    wide: draw(figure, WIDE, WIDE_LAYOUT, WIDE_EDGES),
    tall: draw(figure, TALL, TALL_LAYOUT, TALL_EDGES),
    label: figure.label,
  }
}

function draw(figure: HookFigure, width: number, layout: Layout, edges: readonly Edge[]): Drawing {
  const { legs, stop, local } = figure
  const canvas = new Canvas(width)
  const taken = new Set(legs.map(([from, to]) => `${from} ${to}`))
  const passed = new Set(legs.flat())
  const whole = legs.length === 0
  for (const [from, out, to, into] of edges) {
    if (!taken.has(`${from} ${to}`)) canvas.connect(layout[from], out, layout[to], into, whole ? 'plain' : 'faint')
  }
  for (const [from, out, to, into] of edges) {
    if (taken.has(`${from} ${to}`)) canvas.connect(layout[from], out, layout[to], into, 'path')
  }
  for (const [place, box] of Object.entries(layout) as [Place, Box][]) {
    const hook = place === place.toUpperCase()
    const tone = !whole && !passed.has(place) ? 'faint' : !hook ? 'plain' : place === stop ? 'bad' : 'path'
    canvas.box(box, [place === 'process' ? local : place], { tone, face: hook ? 'mono' : 'sans' })
    if (place === stop) canvas.text('✗', box.x + box.width + 2, box.y + 16, { face: 'bold', tone: 'bad' })
  }
  writeRows(canvas, figure, width, Math.max(...Object.values(layout).map(({ y, height }) => y + height)) + 40)
  return canvas.finish()
}

const TITLE_WIDTH = 206
const TITLE_HEIGHT = 46
const LINE = 34

/** Rows from the top down, an arrow from each title to the next: in a wide figure the lines are beside their title, else below. */
function writeRows(canvas: Canvas, { rows, brief = false }: HookFigure, width: number, top: number): void {
  const beside = width >= WIDE
  const left = beside ? TITLE_WIDTH + (brief ? 14 : 26) : brief ? 0 : 30
  const [height, gap] = brief ? [LINE, 0] : [TITLE_HEIGHT, 24]
  let y = top
  for (const [index, { title, tone, lines }] of rows.entries()) {
    if (brief) canvas.text(title, 0, y, { face: 'mono', tone })
    else canvas.box({ x: 0, y, width: TITLE_WIDTH, height }, [title], { tone })
    let line = y + (brief ? 0 : 32) + (beside ? 0 : height)
    for (const { text, tone: colour } of lines)
      for (const part of wrapText(text, width - left - 8, TEXT)) {
        canvas.text(part, left, line, colour === undefined ? {} : { tone: colour })
        line += LINE
      }
    const below = Math.max(y + height, line - (brief ? 0 : LINE - 14)) + gap
    const middle = beside ? TITLE_WIDTH / 2 : 12
    if (!brief && index < rows.length - 1)
      canvas.arrow(
        [
          [middle, y + height],
          [middle, below],
        ],
        'path',
      )
    y = below
  }
}
