// The drawing of a packet's whole journey: machines, Pods, interfaces, the wire between them, and the packet's header at each place.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { JourneyPacket, Station } from '../../dataplane/view/journey.ts'
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

/** The picture of a path, wide (machines beside each other) and tall (below each other), with a text alternative. */
export interface JourneyPicture {
  wide: string
  tall: string
  label: string
}

/** The gap between two machines, which the wire crosses, and the box of what is outside of the cluster. */
const GAP = 168
const OUTSIDE = { width: 164, height: 64 }
const MARGIN = 26
const SHORT = { source: 'src', destination: 'dst', mark: 'mark' } as const

interface DrawnMachine {
  /** The node, or empty for what is outside. */
  node: string
  stations: { station: Station; index: number }[]
  x: number
  y: number
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
 * A file of its own, with a title, the header at each place, and its colours; undefined where the journey is not known.
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

/** `10.244.1.5 → 10.96.0.10:53/udp leaves a Pod; PREROUTING on worker: destination becomes …; it arrives at a Pod.` */
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

  /** The header as the packet leaves each place; what has changed there is marked. Beside a single machine, else below. */
  addTable(): void {
    const isBeside = this.#machines.length === 1
    const left = isBeside ? MARGIN + PANEL.width + 40 : MARGIN
    const [source, destination, mark, reply, right] = (
      isBeside ? [176, 336, 536, 0, 630] : [300, 500, 770, 880, 1270]
    ).map((offset) => left + offset) as [number, number, number, number, number]
    let y = isBeside ? this.#top + MARGIN / 2 + 30 : this.#bottom + 40
    const heads = [
      ['as it leaves', left],
      ['source', source],
      ['destination', destination],
      ['mark', mark],
      ...(isBeside ? [] : ([['conntrack expects the reply', reply]] as const)),
    ] as const
    for (const [title, x] of heads) this.#text(title, x, y, { size: 15, tone: 'soft' })
    for (const { node, place, hook, packet, changed, conntrack, isStopped } of this.#journey) {
      if (place === 'wire') continue
      y += 30
      this.#parts.push(`<path class="rule" d="M${left} ${y - 20}H${right}"/>`)
      const where = `${hook ? `IPVS (${hook})` : place}${isStopped ? ' ✗' : ''}`
      this.#text(where, left, y, { size: 16, face: 'bold', tone: isStopped ? 'bad' : 'plain' })
      if (!isBeside) this.#text(shortNode(node), left + 176, y, { size: 14, tone: 'soft' })
      const cell = (field: keyof JourneyPacket, x: number) => {
        if (changed.includes(field)) this.#tag(packet[field], x, y - 5, 'start')
        else this.#text(packet[field], x, y, { size: 15, face: 'mono' })
      }
      cell('source', source)
      cell('destination', destination)
      cell('mark', mark)
      if (!isBeside)
        this.#text(conntrack?.reply ?? '', reply, y, { size: 15, face: 'mono', tone: 'soft' })
    }
    const entry = this.#journey.findLast(
      ({ node, conntrack }) => conntrack && node === this.#path.node,
    )?.conntrack
    y += 8
    for (const line of entry
      ? [`conntrack, original: ${entry.original}`, `conntrack, reply: ${entry.reply}`]
      : []) {
      y += 28
      this.#text(line, left, y, { size: 15, tone: 'soft' })
    }
    this.#reach(right, y + 10)
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
    const spots = spotsOf(machine, this.#journey)
    const passed = new Map<Spot, { station: Station; index: number }[]>()
    for (const one of stations) {
      const spot = spotOf(one.station, one.index === 0)
      passed.set(spot, [...(passed.get(spot) ?? []), one])
    }
    for (const spot of ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'] as const)
      this.#hop(spot, spot, passed.get(spot), x, y)
    if (passed.has('IPVS')) this.#hop('IPVS', 'IPVS', passed.get('IPVS'), x, y)
    if (passed.has('process')) this.#hop('process', 'process', passed.get('process'), x, y, node)
    for (const spot of ['sender', 'receiver'] as const)
      this.#hop(spot, 'Pod', passed.get(spot), x, y)
    for (const side of ['left', 'right'] as const)
      if (spots.includes(side))
        this.#port(
          'eth0',
          x + (side === 'left' ? KERNEL_AREA.x : KERNEL_AREA.x + KERNEL_AREA.width),
          y + PANEL.wire,
        )
    const devices = stations.flatMap(({ station: { device } }) => device ?? [])
    if (spots[0] === 'sender') this.#port(devices[0] ?? 'veth', x + VETH.sender, y + KERNEL_AREA.y)
    if (spots.at(-1) === 'receiver')
      this.#port(devices.at(-1) ?? 'veth', x + VETH.receiver, y + KERNEL_AREA.y)
  }

  /** A place: its box, and the fields that change there. */
  #hop(
    spot: Exclude<Spot, 'left' | 'right'>,
    name: string,
    passed: readonly { station: Station; index: number }[] | undefined,
    x: number,
    y: number,
    node?: string,
  ): void {
    const isPod = isPodSpot(spot)
    if (!passed && (isPod || spot === 'process')) return
    const { x: dx, y: dy, width, height } = AREAS[spot]
    const isStopped = passed?.some(({ station }) => station.isStopped)
    const tone = hopTone(spot, passed !== undefined, isStopped === true)
    const at = passed?.map(({ index }) => index).join(' ') ?? ''
    const [mx, my] = middleOf(spot)
    this.#parts.push(
      `<g class="hop ${tone}"${passed ? ` data-at="${at}" data-x="${x + mx}" data-y="${y + dy}"` : ''}>`,
      `<rect x="${x + dx}" y="${y + dy}" width="${width}" height="${height}" rx="${isPod ? 14 : 8}"/>`,
    )
    const detail = hopDetail(spot, passed?.[0]?.station.packet, node)
    if (detail === undefined)
      this.#text(name, x + mx, y + my + 6, {
        size: sizeFor(name, width - 10, 17, 'bold'),
        face: 'bold',
        anchor: 'middle',
        tone: 'on',
      })
    else {
      this.#text(name, x + mx, y + dy + 24, {
        size: 17,
        face: 'bold',
        anchor: 'middle',
        tone: 'on',
      })
      this.#text(detail, x + mx, y + dy + 46, {
        size: sizeFor(detail, width - 12, 16, 'mono'),
        face: isPod ? 'mono' : 'sans',
        anchor: 'middle',
        tone: 'on',
      })
    }
    this.#parts.push('</g>')
    const changes = (passed ?? []).flatMap(({ station: { changed, packet } }) =>
      changed.map((field) => `${SHORT[field]} ${packet[field]}`),
    )
    for (const [index, [tx, ty]] of tagPlaces(spot, changes.length).entries())
      this.#tag(changes[index] ?? '', x + tx, y + ty, isTagEnd(spot) ? 'end' : 'middle')
    if (isStopped)
      this.#text('✗ stopped', x + mx, y + dy + height + (changes.length + 1) * 22, {
        size: 16,
        face: 'bold',
        anchor: 'middle',
        tone: 'bad',
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
      const start: Corner = [
        from.x + (from.node === '' ? OUTSIDE.width : PANEL.width),
        from.y + PANEL.wire,
      ]
      const end: Corner = [to.x, to.y + PANEL.wire]
      const isBelow = end[0] < start[0]
      const between = isBelow ? to.y + (to.node === '' ? PANEL.wire - 56 : -26) : 0
      const points: Corner[] = isBelow
        ? [
            start,
            [start[0] + 14, start[1]],
            [start[0] + 14, between],
            [end[0] - 14, between],
            [end[0] - 14, end[1]],
            end,
          ]
        : [start, end]
      this.#reach(Math.max(...points.map(([x]) => x)), 0)
      this.#line(points, 0, 0, 'wire')
      this.#line(points, 0, 0, 'way taken', true)
      const wire = wireBetween(from, to, this.#journey)
      if (wire)
        this.#onWire(
          wire,
          isBelow ? [(start[0] + end[0]) / 2, between] : [(start[0] + end[0]) / 2, start[1]],
        )
    }
  }

  #onWire({ station, index }: { station: Station; index: number }, [x, y]: Corner): void {
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
