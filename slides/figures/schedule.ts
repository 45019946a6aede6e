import { type Box, Canvas, type Drawing, type Figure, TALL, WIDE } from './canvas.ts'

const HEIGHT = 70

/** One path to a Pod that refuses the connection: what chooses the Pod, and the effect of the refusal. */
interface Row {
  title: string
  chooser: readonly string[]
  /** The refusal reaches the chooser, which connects to another Pod. */
  again: boolean
}

const ROWS: readonly Row[] = [
  { title: 'a rule has chosen', chooser: ['a rule of', 'the kernel'], again: false },
  { title: 'a process has chosen', chooser: ['kube-proxy,', 'userspace mode'], again: true },
]

/** The same refusal in a mode that rewrites packets and in one that relays connections. */
export function retryFigure(): Figure {
  return {
    wide: draw(WIDE),
    tall: draw(TALL),
    label:
      'If a rule chose a Pod that refuses, the refusal goes to the client. If a process chose it, the process connects to the next Pod, and the client gets a response.',
  }
}

function draw(width: number): Drawing {
  const canvas = new Canvas(width)
  for (const [index, row] of ROWS.entries()) {
    if (width === WIDE) drawWide(canvas, row, index * 270)
    else drawTall(canvas, row, index * 470)
  }
  return canvas.finish()
}

function drawWide(canvas: Canvas, row: Row, y: number): void {
  canvas.text(row.title, 0, y + 26)
  const middle = y + 100
  const client = canvas.box({ x: 0, y: middle, width: 170, height: HEIGHT }, ['client'], { face: 'sans' })
  const chooser = canvas.box({ x: 350, y: middle, width: 250, height: HEIGHT }, row.chooser, {
    tone: 'path',
    face: 'sans',
  })
  const refusing = pod(canvas, { x: 820, y: middle - 56, width: 330, height: HEIGHT }, false)
  const other = pod(canvas, { x: 820, y: middle + 56, width: 330, height: HEIGHT }, true)
  canvas.connect(client, 'e', chooser, 'w')
  if (!row.again) canvas.connect(chooser, 'e', other, 'w', 'faint')
  canvas.connect(chooser, 'e', refusing, 'w', 'bad')
  if (row.again) canvas.connect(chooser, 'e', other, 'w', 'path')
  canvas.text(result(row), 0, middle + HEIGHT + 50, { tone: row.again ? 'path' : 'bad' })
}

function drawTall(canvas: Canvas, row: Row, y: number): void {
  canvas.text(row.title, 0, y + 26)
  const client = canvas.box({ x: 150, y: y + 50, width: 180, height: 50 }, ['client'], { face: 'sans' })
  const chooser = canvas.box({ x: 110, y: y + 140, width: 260, height: HEIGHT }, row.chooser, {
    tone: 'path',
    face: 'sans',
  })
  const refusing = pod(canvas, { x: 0, y: y + 280, width: 225, height: HEIGHT }, false)
  const other = pod(canvas, { x: 255, y: y + 280, width: 225, height: HEIGHT }, true)
  canvas.connect(client, 's', chooser, 'n')
  if (!row.again) canvas.connect(chooser, 's', other, 'n', 'faint')
  canvas.connect(chooser, 's', refusing, 'n', 'bad')
  if (row.again) canvas.connect(chooser, 's', other, 'n', 'path')
  canvas.text(result(row), 0, y + 400, { tone: row.again ? 'path' : 'bad' })
}

const pod = (canvas: Canvas, box: Box, answers: boolean): Box =>
  canvas.box(box, ['a Pod that', answers ? 'answers' : 'refuses'], {
    tone: answers ? 'good' : 'bad',
    face: 'sans',
  })

const result = ({ again }: Row) => (again ? 'the process tries the next Pod' : 'the refusal goes to the client')

/** Which server gets each of the first requests: an index into `weights` per request. */
type Schedule = (weights: readonly number[], requests: number) => number[]

function roundRobin(weights: readonly number[], requests: number): number[] {
  return Array.from({ length: requests }, (_, request) => request % weights.length)
}

/**
 * Weighted round robin as the kernel has it (net/netfilter/ipvs/ip_vs_wrr.c): a threshold falls from the maxWeight weight by the
 * maxWeight common divisor, and servers at or above it are selected in turn.
 */
function weightedRoundRobin(weights: readonly number[], requests: number): number[] {
  const maxWeight = Math.max(...weights)
  const step = weights.reduce(commonDivisor)
  const order: number[] = []
  if (maxWeight <= 0) throw new Error('no server has a weight above 0')
  for (
    let threshold = maxWeight;
    order.length < requests;
    threshold = threshold > step ? threshold - step : maxWeight
  ) {
    for (const [server, weight] of weights.entries()) if (weight >= threshold) order.push(server)
  }
  return order.slice(0, requests)
}

/**
 * The server with the fewest connections in proportion to its weight, if no connection ends (ip_vs_wlc.c without inactive
 * ones).
 */
function leastConnections(weights: readonly number[], requests: number): number[] {
  const open = weights.map(() => 0)
  return Array.from({ length: requests }, () => {
    const loads = weights.map((weight, server) => (open[server] ?? 0) / weight)
    const chosen = loads.indexOf(Math.min(...loads))
    open[chosen] = (open[chosen] ?? 0) + 1
    return chosen
  })
}

export const SCHEDULES: Readonly<Record<string, Schedule>> = {
  rr: roundRobin,
  wrr: weightedRoundRobin,
  wlc: leastConnections,
}

/** Requests in their order, each in the row of the server that gets it. */
export function scheduleFigure(scheduler: string, weights: readonly number[], requests: number): Figure {
  const schedule = SCHEDULES[scheduler]
  if (!schedule) throw new Error(`"${scheduler}" can't be drawn, only ${Object.keys(SCHEDULES).join(', ')}`)
  const order = schedule(weights, requests)
  return {
    wide: drawSchedule(order, weights, WIDE),
    tall: drawSchedule(order, weights, TALL),
    label: `${scheduler}: of ${requests} requests the servers get, in turn: ${order.map((server) => server + 1).join(', ')}.`,
  }
}

function drawSchedule(order: readonly number[], weights: readonly number[], width: number): Drawing {
  const canvas = new Canvas(width)
  const wide = width === WIDE
  const left = wide ? 300 : 0
  const shown = wide ? order : order.slice(0, 8)
  const cell = Math.min(104, (width - left) / shown.length)
  const row = wide ? 92 : 110
  for (const [server, weight] of weights.entries()) {
    const y = server * row
    canvas.text(`server ${server + 1}, weight ${weight}`, 0, wide ? y + 46 : y + 28)
    for (const [request, chosen] of shown.entries()) {
      const box = { x: left + request * cell + 2, y: wide ? y : y + 40, width: cell - 6, height: wide ? 72 : 54 }
      const own = chosen === server
      canvas.box(box, [own ? `${request + 1}` : ' '], { tone: own ? 'path' : 'faint' })
    }
  }
  return canvas.finish()
}

function commonDivisor(one: number, other: number): number {
  return other === 0 ? one : commonDivisor(other, one % other)
}
