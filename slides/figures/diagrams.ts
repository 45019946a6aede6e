// Figures of boxes and arrows whose content never changes, but for the nodes of the cluster.

import type { NodePlan } from '../../host/layout.ts'
import { type Box, boxAt, type Canvas, type Figure, figure, type Tone } from './canvas.ts'

/**
 * The nodes of the labs' cluster: each kube-proxy watches the API server and programs the kernel of
 * its node.
 */
export function clusterFigure(nodes: readonly NodePlan[]): Figure {
  const list = nodes.map(({ name, address }) => `${name}, ${address}`).join('; ')
  const label = `kube-proxy on ${nodes.length} nodes (${list}) watches the API server and writes to the kernel of its own node.`
  return figure(label, (canvas, isWide) => {
    const place = { x: (canvas.width - 420) / 2, y: 0, width: 420, height: 80 }
    const api = canvas.box(place, ['API server', 'Services, EndpointSlices'], 'strong')
    const width = isWide ? Math.floor((canvas.width - 2 * 40) / nodes.length) : 380
    for (const [index, node] of nodes.entries()) {
      const [x, y] = isWide ? [index * (width + 40), 140] : [50, 134 + index * 340]
      const proxy = canvas.box(
        { x: x + 50, y, width: width - 100, height: 54 },
        ['kube-proxy'],
        'plain',
        'mono',
      )
      const rules = { x: x + 20, y: y + 100, width: width - 40, height: 84 }
      const kernel = canvas.box(rules, ['rules, sets and', 'virtual servers'], 'path')
      canvas.connect(proxy, kernel, 'path')
      const role = /(control-plane|worker\d*)$/.exec(node.name)?.[1] ?? node.name
      for (const [line, text] of [role, node.address, `Pods: ${node.podCIDR}`].entries())
        canvas.text(text, x + width / 2, y + 222 + line * 38, { anchor: 'middle' })
      if (isWide || index === 0) canvas.connect(api, proxy)
    }
  })
}

const ENTRIES = 7

/** A list that is searched from the top, next to a hash table with one lookup. */
export function lookupFigure(): Figure {
  const label =
    'In a list the packet is compared with one entry after the other; in a hash table the key determines the entry.'
  return figure(label, (canvas, isWide) => {
    drawList(canvas, isWide ? 0 : 20)
    drawHashTable(canvas, isWide ? 640 : 20, isWide ? 0 : 54 + ENTRIES * 64 + 30)
  })
}

const entryAt = (x: number, y: number, width: number, index: number) =>
  boxAt(x, y + 44 + index * 64, width, 52)

function drawList(canvas: Canvas, x: number): void {
  canvas.text('a list: compare in turn', x, 24)
  const names = [
    'Service 1: no',
    'Service 2: no',
    'Service 3: no',
    'Service 4: no',
    'Service 5: no',
    '…',
  ]
  for (const [index, name] of [...names, 'Service n: match'].entries()) {
    const box = entryAt(x + 60, 0, 340, index)
    const middle = box.y + box.height / 2
    const isMatch = index === names.length
    canvas.box(box, [name], isMatch ? 'path' : 'plain')
    canvas.arrow([[x + 30, middle], isMatch ? [box.x, middle] : [x + 30, middle + 60]], 'path')
  }
}

function drawHashTable(canvas: Canvas, x: number, y: number): void {
  canvas.text('a hash table: one lookup', x, y + 24)
  const key = canvas.box({ x, y: y + 170, width: 190, height: 84 }, ['address', 'and port'])
  for (let index = 0; index < ENTRIES; index++) {
    const isHit = index === 4
    const box = canvas.box(
      entryAt(x + 290, y, 170, index),
      [isHit ? 'the entry' : ' '],
      isHit ? 'path' : 'plain',
    )
    if (isHit) canvas.connect(key, box, 'path')
  }
}

/** The path of a packet through the objects of nftables mode, with kube-proxy's names. */
const VERDICT_MAPS: readonly (readonly [object: string, note: string, tone: Tone])[] = [
  ['chain services', 'one rule for all Services', 'plain'],
  ['map service-ips', 'one lookup: address and port', 'path'],
  ['chain service-…', 'numgen random mod 2: 0 or 1', 'plain'],
  ['a map: 0, 1', 'one lookup: the number', 'path'],
  ['dnat to a Pod', 'conntrack repeats it', 'good'],
]

/** The measures of the objects, each with its note: beside it in a wide figure, else below. */
const WIDE_MAPS = { x: 120, width: 380, step: 104, noteX: 540, noteY: 43 }
const TALL_MAPS = { x: 0, width: 300, step: 136, noteX: 0, noteY: 98 }

/** The path in nftables mode: two map lookups from the hook to the Pod, and no list. */
export function verdictMapFigure(): Figure {
  const label = VERDICT_MAPS.map(([object, note]) => `${object} (${note})`).join(', then ')
  return figure(label, (canvas, isWide) => {
    const { x, width, step, noteX, noteY } = isWide ? WIDE_MAPS : TALL_MAPS
    let before: Box | undefined
    for (const [index, [object, note, tone]] of VERDICT_MAPS.entries()) {
      const box = canvas.box({ x, y: index * step, width, height: 66 }, [object], tone)
      canvas.text(note, noteX, box.y + noteY)
      if (before && isWide) canvas.connect(before, box)
      if (before && !isWide) connectBeside(canvas, before, box)
      before = box
    }
  })
}

/** An arrow from one box to the one below it that leaves the space between them to a note. */
function connectBeside(canvas: Canvas, from: Box, to: Box): void {
  const x = canvas.width - 90
  canvas.arrow([
    [x, from.y + 32],
    [x, to.y + 32],
    [to.x + to.width, to.y + 32],
  ])
}

interface SymptomRow {
  seen: string
  tone: Tone
  means: readonly string[]
  checkFirst: readonly string[]
}

const SYMPTOMS: readonly SymptomRow[] = [
  {
    seen: 'refused at once',
    tone: 'bad',
    means: ['a host was reached', 'and refused it'],
    checkFirst: ['a REJECT rule,', 'or a Pod without listener'],
  },
  {
    seen: 'never answered',
    tone: 'faint',
    means: ['dropped, or sent to', 'an unused address'],
    checkFirst: ['DROP, routes, conntrack,', 'the return path'],
  },
  {
    seen: 'now and then',
    tone: 'good',
    means: ['one of several paths', 'is broken'],
    checkFirst: ['one endpoint,', 'or one node'],
  },
]

/** How a request ends, what that means for the packet, and what to check first. */
export function symptomsFigure(): Figure {
  const label = SYMPTOMS.map(
    ({ seen, means, checkFirst }) =>
      `${seen}: ${means.join(' ')}; check first: ${checkFirst.join(' ')}`,
  ).join('. ')
  return figure(label, (canvas, isWide) => {
    for (const [index, { seen, tone, means, checkFirst }] of SYMPTOMS.entries()) {
      const y = index * (isWide ? 156 : 352)
      const [left, middle, right] = isWide
        ? [boxAt(0, y, 250, 112), boxAt(318, y, 340, 112), boxAt(726, y, 426, 112)]
        : [boxAt(20, y, 440, 48), boxAt(20, y + 80, 440, 100), boxAt(20, y + 212, 440, 100)]
      const first = canvas.box(left, [seen], tone)
      const second = canvas.box(middle, means)
      const third = canvas.box(right, checkFirst, 'path')
      canvas.connect(first, second)
      canvas.connect(second, third, 'path')
    }
  })
}

/**
 * One path to a Pod that refuses the connection: what chooses the Pod, and the effect of the
 * refusal.
 */
const REFUSALS = [
  {
    by: 'a rule',
    chooser: ['a rule of', 'the kernel'],
    effect: 'the refusal goes to the client',
    isRetried: false,
  },
  {
    by: 'a process',
    chooser: ['kube-proxy,', 'userspace mode'],
    effect: 'the process tries the next Pod',
    isRetried: true,
  },
] as const

/** The same refusal in a mode that rewrites packets and in one that relays connections. */
export function retryFigure(): Figure {
  const label =
    'If a rule chose a Pod that refuses, the refusal goes to the client. If a process chose it, the process connects to the next Pod, and the client gets a response.'
  return figure(label, (canvas, isWide) => {
    const places = isWide ? WIDE_REFUSAL : TALL_REFUSAL
    for (const [index, refusal] of REFUSALS.entries())
      drawRefusal(canvas, refusal, index * places.step, places)
  })
}

/** The places of one refusal, from its top. */
const WIDE_REFUSAL = {
  step: 284,
  client: boxAt(0, 92, 170, 84),
  chooser: boxAt(350, 92, 250, 84),
  refusing: boxAt(820, 34, 330, 84),
  answering: boxAt(820, 150, 330, 84),
  effect: 230,
}
const TALL_REFUSAL: typeof WIDE_REFUSAL = {
  step: 490,
  client: boxAt(150, 50, 180, 50),
  chooser: boxAt(110, 140, 260, 84),
  refusing: boxAt(0, 290, 225, 84),
  answering: boxAt(255, 290, 225, 84),
  effect: 420,
}

function drawRefusal(
  canvas: Canvas,
  { by, chooser, isRetried, effect }: (typeof REFUSALS)[number],
  y: number,
  places: typeof WIDE_REFUSAL,
): void {
  const below = (box: Box): Box => ({ ...box, y: y + box.y })
  canvas.text(`${by} has chosen`, 0, y + 26)
  const client = canvas.box(below(places.client), ['client'])
  const choosing = canvas.box(below(places.chooser), chooser, 'path')
  const refusing = canvas.box(below(places.refusing), ['a Pod that', 'refuses'], 'bad')
  const answering = canvas.box(below(places.answering), ['a Pod that', 'answers'], 'good')
  canvas.connect(client, choosing)
  if (!isRetried) canvas.connect(choosing, answering, 'faint')
  canvas.connect(choosing, refusing, 'bad')
  if (isRetried) canvas.connect(choosing, answering, 'path')
  canvas.text(effect, 0, y + places.effect, { tone: isRetried ? 'path' : 'bad' })
}

/** The header of a packet at one place of its path; `changed` names the replaced addresses. */
interface HeaderRow {
  at: string
  source: string
  destination: string
  changed?: 'source' | 'destination' | 'both'
}

/** The addresses of a packet and its reply, by forwarding method. */
export const JOURNEYS: Readonly<Record<string, readonly HeaderRow[]>> = {
  nat: [
    { at: 'client sends', source: 'client', destination: 'VIP' },
    { at: 'behind the director', source: 'director', destination: 'real server', changed: 'both' },
    { at: 'the server answers', source: 'real server', destination: 'director' },
    { at: 'back at the director', source: 'VIP', destination: 'client', changed: 'both' },
  ],
  tunnel: [
    { at: 'client sends', source: 'client', destination: 'VIP' },
    { at: 'outer header (IPIP)', source: 'director', destination: 'real server', changed: 'both' },
    { at: 'inner header', source: 'client', destination: 'VIP' },
    { at: 'the server answers', source: 'VIP', destination: 'client' },
  ],
  route: [
    { at: 'client sends', source: 'client', destination: 'VIP' },
    { at: 'in a new frame', source: 'client', destination: 'VIP' },
    { at: 'the server answers', source: 'VIP', destination: 'client' },
  ],
  service: [
    { at: 'Pod sends', source: 'client Pod', destination: 'ClusterIP' },
    { at: 'translated', source: 'client Pod', destination: 'backend Pod', changed: 'destination' },
    { at: 'backend answers', source: 'backend Pod', destination: 'client Pod' },
    { at: 'conntrack', source: 'ClusterIP', destination: 'client Pod', changed: 'source' },
  ],
  hairpin: [
    { at: 'Pod sends', source: 'Pod', destination: 'ClusterIP' },
    { at: 'its own rule', source: 'Pod', destination: 'Pod', changed: 'destination' },
    { at: 'masqueraded', source: 'node', destination: 'Pod', changed: 'source' },
  ],
  external: [
    { at: 'client sends', source: 'client', destination: 'node:port' },
    { at: 'policy Cluster', source: 'node', destination: 'Pod', changed: 'both' },
    { at: 'policy Local', source: 'client', destination: 'Pod', changed: 'destination' },
  ],
}

const HEIGHT = 72
const TOP = 44

/**
 * The header of a packet at each place, source and destination; replaced addresses are highlighted.
 */
export function headersFigure(rows: readonly HeaderRow[], label: string): Figure {
  const list = rows.map(({ at, source, destination }) => `${at}, from ${source} to ${destination}`)
  return figure(`${label}: ${list.join('; ')}.`, (canvas, isWide) => {
    const [left, width, step] = isWide ? [330, 330, HEIGHT + 22] : [0, 210, HEIGHT + 64]
    const right = canvas.width - width
    canvas.text('source', left + width / 2, 26, { anchor: 'middle', tone: 'faint' })
    canvas.text('destination', right + width / 2, 26, { anchor: 'middle', tone: 'faint' })
    for (const [index, { at, source, destination, changed }] of rows.entries()) {
      const y = TOP + index * step
      const top = isWide ? y : y + 38
      canvas.text(at, 0, isWide ? y + 46 : y + 28)
      const tone = (end: 'source' | 'destination') =>
        changed === end || changed === 'both' ? 'path' : 'plain'
      const from = canvas.box({ x: left, y: top, width, height: HEIGHT }, [source], tone('source'))
      const to = canvas.box(
        { x: right, y: top, width, height: HEIGHT },
        [destination],
        tone('destination'),
      )
      canvas.connect(from, to)
    }
  })
}
