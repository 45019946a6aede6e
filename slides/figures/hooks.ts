import type { PathPlace } from '../../dataplane/trace/path.ts'
import {
  type Box,
  boxAt,
  type Canvas,
  type Figure,
  figure,
  TEXT,
  type Tone,
  wrapText,
} from './canvas.ts'

/** Where a packet goes, and a row for each hook that it passes. */
export interface HookFigure {
  legs: readonly (readonly [from: PathPlace, to: PathPlace])[]
  /** The hook that stops the packet. */
  stop?: PathPlace
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
  lines: readonly Line[]
}

export interface Line {
  text: string
  tone?: Tone
}

/**
 * The kernel's three paths (net/netfilter hooks, in the order in which ip_rcv, ip_forward and
 * ip_output call them).
 */
export const PATHS: Readonly<
  Record<'in' | 'forward' | 'out' | 'ipvs' | 'none', readonly PathPlace[]>
> = {
  in: ['in', 'PREROUTING', 'routing', 'INPUT', 'process'],
  forward: ['in', 'PREROUTING', 'routing', 'FORWARD', 'POSTROUTING', 'out'],
  out: ['process', 'OUTPUT', 'POSTROUTING', 'out'],
  ipvs: ['in', 'PREROUTING', 'routing', 'INPUT', 'process', 'OUTPUT', 'POSTROUTING', 'out'],
  none: [],
}

const ROW = 58

/** Each place in a wide figure and in a tall one. */
const PLACES: Readonly<Record<PathPlace, readonly [wide: Box, tall: Box]>> = {
  in: [boxAt(0, 176, 66, ROW), boxAt(63, 0, 80, 42)],
  PREROUTING: [boxAt(136, 176, 186, ROW), boxAt(0, 76, 206, ROW)],
  routing: [boxAt(392, 176, 128, ROW), boxAt(38, 174, 130, ROW)],
  INPUT: [boxAt(394, 88, 124, ROW), boxAt(310, 174, 120, ROW)],
  process: [boxAt(605, 0, 150, ROW), boxAt(295, 272, 150, ROW)],
  FORWARD: [boxAt(590, 176, 140, ROW), boxAt(33, 272, 140, ROW)],
  OUTPUT: [boxAt(840, 88, 124, ROW), boxAt(308, 370, 124, ROW)],
  POSTROUTING: [boxAt(800, 176, 204, ROW), boxAt(0, 468, 206, ROW)],
  out: [boxAt(1074, 176, 78, ROW), boxAt(63, 566, 80, 42)],
}

/** The way along places as legs. */
export const legsAlong = (path: readonly PathPlace[]): [PathPlace, PathPlace][] =>
  path.slice(1).map((place, index) => [path[index] as PathPlace, place])

/**
 * Netfilter's five hooks with the path of one packet, and a row for each hook with what happens
 * there.
 */
export function hooksFigure(packet: HookFigure): Figure {
  return figure(packet.label, (canvas, isWide) => {
    drawHooks(canvas, packet, isWide)
    drawRows(canvas, packet, canvas.bottom + 44, isWide)
  })
}

function drawHooks(canvas: Canvas, packet: HookFigure, isWide: boolean): void {
  const { legs, stop, local } = packet
  const boxOf = (place: PathPlace) => PLACES[place][isWide ? 0 : 1]
  const connect =
    (tone: Tone) =>
    ([from, to]: HookFigure['legs'][number]) =>
      canvas.connect(boxOf(from), boxOf(to), tone)
  Object.values(PATHS)
    .flatMap(legsAlong)
    .forEach(connect(legs.length === 0 ? 'plain' : 'faint'))
  // The path is drawn over the lines that it crosses.
  legs.forEach(connect('path'))
  for (const place of Object.keys(PLACES) as PathPlace[]) {
    const box = boxOf(place)
    const name = place === 'process' ? local : place
    canvas.box(box, [name], placeTone(place, packet), isHook(place) ? 'mono' : 'sans')
    if (place === stop)
      canvas.text('✗', box.x + box.width + 2, box.y + 16, { face: 'bold', tone: 'bad' })
  }
}

const isHook = (place: PathPlace): boolean => place === place.toUpperCase()

/** The style of a place; a figure without a packet shows all places as passed. */
function placeTone(place: PathPlace, { legs, stop }: HookFigure): Tone {
  if (legs.length > 0 && !legs.flat().includes(place)) return 'faint'
  if (!isHook(place)) return 'plain'
  return place === stop ? 'bad' : 'path'
}

const TITLE_WIDTH = 206
const LINE = 34
/** The measures of rows with boxes and arrows, and of those without. */
const BOXED = { height: 46, baseline: 32, tail: 20, gap: 24, beside: TITLE_WIDTH + 26, below: 30 }
const BRIEF = { height: LINE, baseline: 0, tail: 0, gap: 0, beside: TITLE_WIDTH + 14, below: 0 }

/**
 * Rows from the top down, an arrow from each title to the next: in a wide figure the lines are
 * beside their title, else below.
 */
function drawRows(
  canvas: Canvas,
  { rows, brief = false }: HookFigure,
  top: number,
  isWide: boolean,
): void {
  const { height, baseline, tail, gap, beside, below } = brief ? BRIEF : BOXED
  const left = isWide ? beside : below
  let y = top
  for (const [index, { title, tone, lines }] of rows.entries()) {
    if (brief) canvas.text(title, 0, y, { face: 'mono', tone })
    else canvas.box({ x: 0, y, width: TITLE_WIDTH, height }, [title], tone, 'mono')
    let line = y + baseline + (isWide ? 0 : height)
    for (const { text, tone: colour = 'plain' } of lines)
      for (const part of wrapText(text, canvas.width - left - 8, TEXT)) {
        canvas.text(part, left, line, { tone: colour })
        line += LINE
      }
    const bottom = y + height
    y = Math.max(bottom, line - tail) + gap
    if (brief || index === rows.length - 1) continue
    const middle = isWide ? TITLE_WIDTH / 2 : 12
    canvas.arrow(
      [
        [middle, bottom],
        [middle, y],
      ],
      'path',
    )
  }
}
