import { Canvas, type Drawing, type Figure, TALL, WIDE } from './canvas.ts'

/** Which server gets each of the first requests: an index into `weights` per request. */
export type Schedule = (weights: readonly number[], requests: number) => number[]

function roundRobin(weights: readonly number[], requests: number): number[] {
  return Array.from({ length: requests }, (_, request) => request % weights.length)
}

/**
 * Weighted round robin as the kernel has it (net/netfilter/ipvs/ip_vs_wrr.c): a threshold falls from the greatest weight by the
 * greatest common divisor, and servers at or above it take their turn.
 */
function weightedRoundRobin(weights: readonly number[], requests: number): number[] {
  const greatest = Math.max(...weights)
  const step = weights.reduce(commonDivisor)
  const order: number[] = []
  if (greatest <= 0) throw new Error('no server has a weight above 0')
  for (let threshold = greatest; order.length < requests; threshold = threshold > step ? threshold - step : greatest) {
    for (const [server, weight] of weights.entries()) if (weight >= threshold) order.push(server)
  }
  return order.slice(0, requests)
}

/** The server with the fewest connections in proportion to its weight, while none ends (ip_vs_wlc.c without inactive ones). */
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
    wide: draw(order, weights, WIDE),
    tall: draw(order, weights, TALL),
    label: `${scheduler}: of ${requests} requests the servers get, in turn: ${order.map((server) => server + 1).join(', ')}.`,
  }
}

function draw(order: readonly number[], weights: readonly number[], width: number): Drawing {
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
      canvas.box(box, [own ? `${request + 1}` : ' '], { tone: own ? 'way' : 'faint' })
    }
  }
  return canvas.finish()
}

function commonDivisor(one: number, other: number): number {
  return other === 0 ? one : commonDivisor(other, one % other)
}
