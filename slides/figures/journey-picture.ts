// The drawing of a packet's whole journey: machines, Pods, interfaces, the wire between them, and
// the packet's header at each place.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { groupBy } from '../../dataplane/collections.ts'
import type { Station } from '../../dataplane/view/journey.ts'
import type { PacketPath } from '../../dataplane/view/packet-path.ts'
import { projectRoot } from '../../host/layout.ts'
import { PALETTE, paletteStyle } from '../build/style.ts'
import { type Drawing, escapeText, textWidth } from './canvas.ts'
import {
  AREAS,
  type Corner,
  isTagEnd,
  KERNEL_AREA,
  lineBetween,
  middleOf,
  PANEL,
  type Spot,
  sizeFor,
  spotOf,
  tagPlaces,
  usualLines,
  VETH,
} from './machine-panel.ts'
import { NOT_XML } from './svg-text.ts'

/**
 * The picture of a path, wide (machines beside each other) and tall (below each other), with a text
 * alternative.
 */
export interface JourneyPicture {
  wide: string
  tall: string
  label: string
}

/**
 * The gap between two machines, which the wire crosses, and the box of what is outside of the
 * cluster.
 */
const GAP = 168
const OUTSIDE = { width: 164, height: 64 }
const MARGIN = 26
const SHORT = { source: 'src', destination: 'dst', mark: 'mark' } as const

/** A station with its place in the journey. */
interface PassedStation {
  station: Station
  index: number
}

interface DrawnMachine {
  /** The node, or empty for what is outside. */
  node: string
  stations: PassedStation[]
  x: number
  y: number
}

/** A spot that has a box. */
type DrawnSpot = Exclude<Spot, 'left' | 'right'>

/** Where the columns of the table of headers begin, and where its lines end. */
interface TableColumns {
  left: number
  node?: number
  source: number
  destination: number
  mark: number
  reply?: number
  right: number
}

const BESIDE = MARGIN + PANEL.width + 40
/** Beside a single machine there is no room for the replies, and no need for its name. */
const COLUMNS_BESIDE: TableColumns = {
  left: BESIDE,
  source: BESIDE + 176,
  destination: BESIDE + 336,
  mark: BESIDE + 536,
  right: BESIDE + 630,
}
const COLUMNS_BELOW: TableColumns = {
  left: MARGIN,
  node: MARGIN + 176,
  source: MARGIN + 300,
  destination: MARGIN + 500,
  mark: MARGIN + 770,
  reply: MARGIN + 880,
  right: MARGIN + 1270,
}

/** Draws a path; undefined where its journey is not known. */
export function journeyPicture(path: PacketPath): JourneyPicture | undefined {
  const { journey } = path
  if (!journey || journey.length === 0) return undefined
  return {
    wide: element(new JourneyCanvas(path, journey, true).draw()),
    tall: element(new JourneyCanvas(path, journey, false).draw()),
    label: describeJourney(path, journey),
  }
}

/**
 * A file of its own, with a title, the header at each place, and its colours; undefined where the
 * journey is not known.
 * @param title what was asked for: `pod/client → svc/web:80`
 */
export function journeyFile(path: PacketPath, title = path.packet): string | undefined {
  const { journey } = path
  if (!journey || journey.length === 0) return undefined
  const canvas = new JourneyCanvas(path, journey, true)
  canvas.addTitle(title)
  canvas.draw()
  canvas.addTable()
  const { width, height, body } = canvas.finish()
  const theme = readFileSync(join(projectRoot, 'slides/theme/figure.css'), 'utf8')
  const style = `${paletteStyle(PALETTE)}\n${theme}`
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>${escapeText(describeJourney(path, journey))}</title>`,
    `<style>${escapeText(style)}</style>`,
    `<rect width="${width}" height="${height}" fill="var(--paper)"/>`,
    body,
    '</svg>\n',
  ]
    .join('\n')
    .replace(NOT_XML, '\ufffd')
}

/**
 * `10.244.1.5 → 10.96.0.10:53/udp leaves a Pod; PREROUTING on worker: destination becomes …; it
 * arrives at a Pod.`
 */
export function describeJourney({ packet, mode }: PacketPath, journey: readonly Station[]): string {
  const stops = journey.flatMap((station) => {
    const { node, place, changed, packet: header, isStopped } = station
    if (isStopped) return [`it is stopped at ${place} on ${node}`]
    if (changed.length === 0) return []
    const changes = changed.map((field) => `${field} becomes ${header[field]}`).join(', ')
    return [`${place} on ${node}: ${changes}`]
  })
  const last = journey.at(-1)
  const end = last?.isStopped
    ? []
    : [
        `it ends at ${last?.place === 'outside' ? 'the outside' : `a ${last?.place}`} ${last?.node ?? ''}`,
      ]
  return `The journey of ${packet} in ${mode} mode: ${[...stops, ...end].join('; ').trim()}.`
}

/** `worker2` of `k8s-guide-worker2`. */
const shortNode = (node: string) => /(?:control-plane|worker\d*)$/.exec(node)?.[0] ?? node

const element = ({ width, height, body }: Drawing): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}">${body.replace(NOT_XML, '\ufffd')}</svg>`

class JourneyCanvas {
  readonly #path: PacketPath
  readonly #journey: readonly Station[]
  readonly #machines: DrawnMachine[]
  readonly #parts: string[] = []
  #top = 0
  #width = 0
  #bottom = 0

  constructor(path: PacketPath, journey: readonly Station[], isWide: boolean) {
    this.#path = path
    this.#journey = journey
    this.#machines = placed(machinesIn(journey), isWide)
  }

  addTitle(title: string): void {
    const { packet, mode, real } = this.#path
    this.#text(title, MARGIN, 46, { size: 26, face: 'bold', tone: 'strong' })
    const where = `${title === packet ? '' : `${packet}, `}kube-proxy in ${mode} mode${real ? '' : ', predicted'}`
    this.#text(where, MARGIN, 76, { size: 17, tone: 'soft' })
    this.#top = 88
  }

  /** Draws the machines and the packet's path. */
  draw(): Drawing {
    const machines = this.#machines.map((machine) => ({ ...machine, y: machine.y + this.#top }))
    for (const machine of machines)
      if (machine.node === '') this.#outside(machine)
      else this.#machine(machine)
    this.#wires(machines)
    for (const machine of machines) if (machine.node !== '') this.#way(machine)
    for (const machine of machines) if (machine.node !== '') this.#places(machine)
    const first = machines[0]
    if (first) {
      const [x, y] = dotOf(first, 0, this.#journey)
      this.#parts.push(`<circle class="packet-dot" cx="${x}" cy="${y}" r="9"/>`)
    }
    return this.finish()
  }

  finish(): Drawing {
    return {
      width: this.#width + MARGIN,
      height: this.#bottom + MARGIN / 2,
      body: this.#parts.join('\n'),
    }
  }

  /**
   * The header as the packet leaves each place; what has changed there is marked. Beside a single
   * machine, else below.
   */
  addTable(): void {
    const isBeside = this.#machines.length === 1
    const columns = isBeside ? COLUMNS_BESIDE : COLUMNS_BELOW
    let y = isBeside ? this.#top + MARGIN / 2 + 30 : this.#bottom + 40
    this.#tableHead(columns, y)
    for (const station of this.#journey) {
      if (station.place === 'wire') continue
      y += 30
      this.#tableRow(station, columns, y)
    }
    y += 8
    for (const line of this.#entryLines()) {
      y += 28
      this.#text(line, columns.left, y, { size: 15, tone: 'soft' })
    }
    this.#reach(columns.right, y + 10)
  }

  #tableHead({ left, source, destination, mark, reply }: TableColumns, y: number): void {
    const heads = [
      ['as it leaves', left],
      ['source', source],
      ['destination', destination],
      ['mark', mark],
      ['conntrack expects the reply', reply],
    ] as const
    for (const [title, x] of heads)
      if (x !== undefined) this.#text(title, x, y, { size: 15, tone: 'soft' })
  }

  #tableRow(station: Station, columns: TableColumns, y: number): void {
    const { node, place, hook, packet, changed, conntrack, isStopped } = station
    this.#parts.push(`<path class="rule" d="M${columns.left} ${y - 20}H${columns.right}"/>`)
    const where = `${hook ? `IPVS (${hook})` : place}${isStopped ? ' ✗' : ''}`
    const tone = isStopped ? 'bad' : 'plain'
    this.#text(where, columns.left, y, { size: 16, face: 'bold', tone })
    if (columns.node !== undefined)
      this.#text(shortNode(node), columns.node, y, { size: 14, tone: 'soft' })
    for (const field of ['source', 'destination', 'mark'] as const) {
      if (changed.includes(field)) this.#tag(packet[field], columns[field], y - 5, 'start')
      else this.#text(packet[field], columns[field], y, { size: 15, face: 'mono' })
    }
    if (columns.reply !== undefined)
      this.#text(conntrack?.reply ?? '', columns.reply, y, { size: 15, face: 'mono', tone: 'soft' })
  }

  /** The conntrack entry on the path's node, after its last place there. */
  #entryLines(): string[] {
    const entry = this.#journey.findLast(
      ({ node, conntrack }) => conntrack && node === this.#path.node,
    )?.conntrack
    if (!entry) return []
    return [`conntrack, original: ${entry.original}`, `conntrack, reply: ${entry.reply}`]
  }

  #machine({ node, x, y }: DrawnMachine): void {
    const at = (dx: number, dy: number): string => `x="${x + dx}" y="${y + dy}"`
    this.#reach(x + PANEL.width, y + PANEL.height)
    this.#parts.push(
      `<rect class="machine" ${at(0, 0)} width="${PANEL.width}" height="${PANEL.height}" rx="14"/>`,
      `<rect class="kernel" ${at(KERNEL_AREA.x, KERNEL_AREA.y)} width="${KERNEL_AREA.width}" height="${KERNEL_AREA.height}" rx="10"/>`,
    )
    this.#text(node, x + 18, y + 32, { size: 19, face: 'bold' })
    const mode = node === this.#path.node ? `${this.#path.mode} mode` : ''
    this.#text(mode, x + PANEL.width - 18, y + 32, { size: 15, tone: 'soft', anchor: 'end' })
    this.#text('kernel', x + KERNEL_AREA.x + 12, y + KERNEL_AREA.y + KERNEL_AREA.height - 10, {
      size: 13,
      tone: 'soft',
    })
    for (const points of usualLines()) this.#line(points, x, y, 'way faint')
  }

  /** The part of the path that is on a machine. */
  #way(machine: DrawnMachine): void {
    const { x, y } = machine
    const spots = spotsOf(machine, this.#journey)
    for (const [index, to] of spots.entries()) {
      const from = spots[index - 1]
      if (from !== undefined && from !== to)
        this.#line(lineBetween(from, to), x, y, 'way taken', true)
    }
  }

  /** Boxes, interfaces and what changes at each place. */
  #places(machine: DrawnMachine): void {
    const { x, y, stations, node } = machine
    const passed = groupBy(stations, ({ station, index }) => spotOf(station, index === 0))
    for (const spot of ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'] as const)
      this.#hop(spot, spot, passed.get(spot), x, y)
    if (passed.has('IPVS')) this.#hop('IPVS', 'IPVS', passed.get('IPVS'), x, y)
    if (passed.has('process')) this.#hop('process', 'process', passed.get('process'), x, y, node)
    for (const spot of ['sender', 'receiver'] as const)
      this.#hop(spot, 'Pod', passed.get(spot), x, y)
    this.#ports(machine)
  }

  /** The interfaces by which the packet comes and goes. */
  #ports(machine: DrawnMachine): void {
    const { x, y, stations } = machine
    const spots = spotsOf(machine, this.#journey)
    if (spots.includes('left')) this.#port('eth0', x + KERNEL_AREA.x, y + PANEL.wire)
    if (spots.includes('right'))
      this.#port('eth0', x + KERNEL_AREA.x + KERNEL_AREA.width, y + PANEL.wire)
    const devices = stations.flatMap(({ station: { device } }) => device ?? [])
    if (spots[0] === 'sender') this.#port(devices[0] ?? 'veth', x + VETH.sender, y + KERNEL_AREA.y)
    if (spots.at(-1) === 'receiver')
      this.#port(devices.at(-1) ?? 'veth', x + VETH.receiver, y + KERNEL_AREA.y)
  }

  /** A place: its box, and the fields that change there. */
  #hop(
    spot: DrawnSpot,
    name: string,
    passed: readonly PassedStation[] | undefined,
    x: number,
    y: number,
    node?: string,
  ): void {
    const isPod = isPodSpot(spot)
    if (!passed && (isPod || spot === 'process')) return
    const { x: dx, y: dy, width, height } = AREAS[spot]
    const isStopped = passed?.some(({ station }) => station.isStopped)
    const tone = hopTone(spot, passed !== undefined, isStopped === true)
    const middle = x + middleOf(spot)[0]
    const at = passed?.map(({ index }) => index).join(' ')
    const data = passed ? ` data-at="${at}" data-x="${middle}" data-y="${y + dy}"` : ''
    this.#parts.push(
      `<g class="hop ${tone}"${data}>`,
      `<rect x="${x + dx}" y="${y + dy}" width="${width}" height="${height}" rx="${isPod ? 14 : 8}"/>`,
    )
    this.#hopText(spot, name, hopDetail(spot, passed?.[0]?.station.packet, node), x, y)
    this.#parts.push('</g>')
    const changes = (passed ?? []).flatMap(({ station: { changed, packet } }) =>
      changed.map((field) => `${SHORT[field]} ${packet[field]}`),
    )
    for (const [index, [tx, ty]] of tagPlaces(spot, changes.length).entries())
      this.#tag(changes[index] ?? '', x + tx, y + ty, isTagEnd(spot) ? 'end' : 'middle')
    if (isStopped)
      this.#text('✗ stopped', middle, y + dy + height + (changes.length + 1) * 22, {
        size: 16,
        face: 'bold',
        anchor: 'middle',
        tone: 'bad',
      })
  }

  /** The name of a place in the middle of its box, or above the detail. */
  #hopText(spot: DrawnSpot, name: string, detail: string | undefined, x: number, y: number): void {
    const { y: dy, width } = AREAS[spot]
    const [mx, my] = middleOf(spot)
    const bold = { face: 'bold', anchor: 'middle', tone: 'on' } as const
    if (detail === undefined) {
      const size = sizeFor(name, width - 10, 17, 'bold')
      this.#text(name, x + mx, y + my + 6, { ...bold, size })
      return
    }
    this.#text(name, x + mx, y + dy + 24, { ...bold, size: 17 })
    this.#text(detail, x + mx, y + dy + 46, {
      size: sizeFor(detail, width - 12, 16, 'mono'),
      face: isPodSpot(spot) ? 'mono' : 'sans',
      anchor: 'middle',
      tone: 'on',
    })
  }

  /** An interface at the edge of a kernel. */
  #port(name: string, x: number, y: number): void {
    const width = textWidth(name, 13, 'mono') + 14
    this.#parts.push(
      `<rect class="port" x="${x - width / 2}" y="${y - 11}" width="${width}" height="22" rx="11"/>`,
    )
    this.#text(name, x, y + 4, { size: 13, face: 'mono', anchor: 'middle', tone: 'port' })
  }

  #tag(text: string, x: number, y: number, anchor: 'middle' | 'start' | 'end' = 'middle'): void {
    const size = sizeFor(text, 250, 14, 'mono')
    const width = textWidth(text, size, 'mono') + 12
    const left = { start: x - 6, middle: x - width / 2, end: x - width }[anchor]
    this.#parts.push(
      `<rect class="tag" x="${left}" y="${y - 10}" width="${width}" height="20" rx="5"/>`,
    )
    this.#text(text, left + width / 2, y + 5, { size, face: 'mono', anchor: 'middle', tone: 'tag' })
  }

  #outside({ x, y, stations }: DrawnMachine): void {
    const top = y + PANEL.wire - OUTSIDE.height / 2
    const at = stations.filter(({ station }) => station.place === 'outside')
    const { packet } = at[0]?.station ?? {}
    const isSender = at[0]?.index === 0
    const address = (isSender ? packet?.source : packet?.destination) ?? ''
    this.#reach(x + OUTSIDE.width, top + OUTSIDE.height)
    this.#parts.push(
      `<g class="hop end" data-at="${at.map(({ index }) => index).join(' ')}" data-x="${x + OUTSIDE.width / 2}" data-y="${top}">`,
      `<rect x="${x}" y="${top}" width="${OUTSIDE.width}" height="${OUTSIDE.height}" rx="32"/>`,
    )
    const middle = x + OUTSIDE.width / 2
    this.#text('outside', middle, top + 27, {
      size: 17,
      face: 'bold',
      anchor: 'middle',
      tone: 'on',
    })
    this.#text(address, middle, top + 49, {
      size: sizeFor(address, OUTSIDE.width - 20, 15, 'mono'),
      face: 'mono',
      anchor: 'middle',
      tone: 'on',
    })
    this.#parts.push('</g>')
  }

  /** The wire from each machine to the next, with the packet that is on it. */
  #wires(machines: readonly DrawnMachine[]): void {
    for (const [index, to] of machines.entries()) {
      const from = machines[index - 1]
      if (!from) continue
      const { points, middle } = wireLine(from, to)
      this.#reach(Math.max(...points.map(([x]) => x)), 0)
      this.#line(points, 0, 0, 'wire')
      this.#line(points, 0, 0, 'way taken', true)
      const wire = wireBetween(from, to, this.#journey)
      if (wire) this.#onWire(wire, middle)
    }
  }

  #onWire({ station, index }: PassedStation, [x, y]: Corner): void {
    const { source, destination } = station.packet
    this.#parts.push(`<g class="on-wire" data-at="${index}" data-x="${x}" data-y="${y}">`)
    const lines = [source, `→ ${destination}`]
    for (const [line, text] of lines.entries())
      this.#text(text, x, y - 34 + line * 20, {
        size: sizeFor(text, GAP - 14, 14, 'mono'),
        face: 'mono',
        anchor: 'middle',
      })
    this.#parts.push('</g>')
  }

  #line(points: readonly Corner[], x: number, y: number, style: string, hasHead = false): void {
    const moved = points.map(([px, py]): Corner => [px + x, py + y])
    this.#parts.push(`<path class="${style}" d="${rounded(moved)}"/>`)
    const [before = [0, 0], last = before] = moved.slice(-2)
    if (!hasHead) return
    const angle = (Math.atan2(last[1] - before[1], last[0] - before[0]) * 180) / Math.PI
    this.#parts.push(
      `<path class="way-head" d="M1 0L-9 -6L-9 6Z" transform="translate(${last[0]} ${last[1]}) rotate(${angle})"/>`,
    )
  }

  #text(
    text: string,
    x: number,
    y: number,
    {
      size,
      face = 'sans',
      tone = 'plain',
      anchor = 'start',
    }: {
      size: number
      face?: 'sans' | 'bold' | 'mono'
      tone?: string
      anchor?: 'start' | 'middle' | 'end'
    },
  ): void {
    if (text === '') return
    this.#parts.push(
      `<text class="j ${face} ${tone}" x="${x}" y="${y}" font-size="${size}" text-anchor="${anchor}">${escapeText(text)}</text>`,
    )
  }

  #reach(x: number, y: number): void {
    this.#width = Math.max(this.#width, x)
    this.#bottom = Math.max(this.#bottom, y)
  }
}

/** The machines in their order; the stations on a wire belong to none. */
function machinesIn(journey: readonly Station[]): DrawnMachine[] {
  const machines: DrawnMachine[] = []
  for (const [index, station] of journey.entries()) {
    if (station.place === 'wire') continue
    const last = machines.at(-1)
    if (last?.node === station.node) last.stations.push({ station, index })
    else machines.push({ node: station.node, stations: [{ station, index }], x: 0, y: 0 })
  }
  return machines
}

function placed(machines: readonly DrawnMachine[], isWide: boolean): DrawnMachine[] {
  let [x, y] = [MARGIN, MARGIN / 2]
  return machines.map((machine) => {
    const isOutside = machine.node === ''
    const own = { ...machine, x: isWide || !isOutside ? x : x + 60, y }
    if (isWide) x += (isOutside ? OUTSIDE.width : PANEL.width) + GAP
    // What is outside takes no more than its box.
    else if (isOutside) {
      own.y = y - PANEL.wire + OUTSIDE.height / 2
      y += OUTSIDE.height + 86
    } else y += PANEL.height + 86
    return own
  })
}

/** The spots of a machine in the packet's order, with the sides by which it comes and goes. */
function spotsOf({ stations }: DrawnMachine, journey: readonly Station[]): Spot[] {
  const spots = stations.map(({ station, index }) => spotOf(station, index === 0))
  const [first, last] = [stations[0]?.index ?? 0, stations.at(-1)?.index ?? 0]
  return [
    ...(first > 0 ? (['left'] as const) : []),
    ...spots,
    ...(last < journey.length - 1 ? (['right'] as const) : []),
  ]
}

const dotOf = (
  { x, y, node }: DrawnMachine,
  index: number,
  journey: readonly Station[],
): Corner => {
  const station = journey[index]
  if (node === '' || !station) return [x + OUTSIDE.width / 2, y + PANEL.wire]
  const [dx, dy] = middleOf(spotOf(station, index === 0))
  return [x + dx, y + dy]
}

/** The line of the wire between two machines: straight, or through the gap above the lower one. */
function wireLine(from: DrawnMachine, to: DrawnMachine): { points: Corner[]; middle: Corner } {
  const width = from.node === '' ? OUTSIDE.width : PANEL.width
  const start: Corner = [from.x + width, from.y + PANEL.wire]
  const end: Corner = [to.x, to.y + PANEL.wire]
  const middle = (start[0] + end[0]) / 2
  if (end[0] >= start[0]) return { points: [start, end], middle: [middle, start[1]] }
  const between = to.y + (to.node === '' ? PANEL.wire - 56 : -26)
  const points: Corner[] = [
    start,
    [start[0] + 14, start[1]],
    [start[0] + 14, between],
    [end[0] - 14, between],
    [end[0] - 14, end[1]],
    end,
  ]
  return { points, middle: [middle, between] }
}

function wireBetween(from: DrawnMachine, to: DrawnMachine, journey: readonly Station[]) {
  const [start, end] = [from.stations.at(-1)?.index ?? 0, to.stations[0]?.index ?? 0]
  const index = journey.findIndex(
    ({ place }, index) => place === 'wire' && index > start && index < end,
  )
  const station = journey[index]
  return station && { station, index }
}

const RADIUS = 10

/** A path through points with rounded corners. */
function rounded(points: readonly Corner[]): string {
  return points
    .map((point, index) => {
      const [before, after] = [points[index - 1], points[index + 1]]
      if (!before) return `M${point.join(' ')}`
      if (!after) return `L${point.join(' ')}`
      const [start, end] = [towards(point, before), towards(point, after)]
      return `L${start.join(' ')}Q${point.join(' ')} ${end.join(' ')}`
    })
    .join('')
}

/** The point at a corner's radius from one point towards another. */
function towards([x, y]: Corner, [toX, toY]: Corner): Corner {
  const length = Math.hypot(toX - x, toY - y) || 1
  const share = Math.min(RADIUS, length / 2) / length
  return [x + (toX - x) * share, y + (toY - y) * share]
}

const isPodSpot = (spot: Spot): boolean => spot === 'sender' || spot === 'receiver'

function hopTone(spot: Spot, isPassed: boolean, isStopped: boolean): string {
  if (!isPassed) return 'faint'
  if (isStopped) return 'bad'
  return isPodSpot(spot) || spot === 'process' ? 'end' : 'passed'
}

/** The second line of a place: the Pod's address, or on which node a process runs. */
function hopDetail(
  spot: Spot,
  packet: Station['packet'] | undefined,
  node: string | undefined,
): string | undefined {
  if (spot === 'sender') return packet?.source
  if (spot === 'receiver') return packet?.destination
  return spot === 'process' && node ? 'of the node' : undefined
}
