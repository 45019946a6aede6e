import { type Figure, figure } from './canvas.ts'

/** Which server gets each of the first requests: an index into `weights` per request. */
type Schedule = (weights: readonly number[], requests: number) => number[]

function roundRobin(weights: readonly number[], requests: number): number[] {
  return Array.from({ length: requests }, (_, request) => request % weights.length)
}

/**
 * Weighted round robin as the kernel has it (net/netfilter/ipvs/ip_vs_wrr.c): a threshold falls from the largest weight by the
 * greatest common divisor of all weights, and servers at or above it are selected in turn.
 */
function weightedRoundRobin(weights: readonly number[], requests: number): number[] {
  const largest = Math.max(...weights)
  const step = weights.reduce(commonDivisor)
  if (largest <= 0) throw new Error('no server has a weight above 0')
  const order: number[] = []
  for (
    let threshold = largest;
    order.length < requests;
    threshold = threshold > step ? threshold - step : largest
  )
    for (const [server, weight] of weights.entries()) if (weight >= threshold) order.push(server)
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

/** Requests in their order, each in the row of the server that gets it. Throws Error for an unknown scheduler. */
export function scheduleFigure(
  scheduler: string,
  weights: readonly number[],
  requests: number,
): Figure {
  const schedule = SCHEDULES[scheduler]
  if (!schedule)
    throw new Error(`"${scheduler}" can't be drawn, only ${Object.keys(SCHEDULES).join(', ')}`)
  const order = schedule(weights, requests)
  const label = `${scheduler}: of ${requests} requests the servers get, in turn: ${order.map((server) => server + 1).join(', ')}.`
  return figure(label, (canvas, isWide) => {
    const [left, row, height] = isWide ? [300, 108, 88] : [0, 110, 54]
    const shown = isWide ? order : order.slice(0, 8)
    const cell = Math.min(104, (canvas.width - left) / shown.length)
    for (const [server, weight] of weights.entries()) {
      const y = server * row
      canvas.text(`server ${server + 1}, weight ${weight}`, 0, isWide ? y + 54 : y + 28)
      for (const [request, chosen] of shown.entries()) {
        const box = {
          x: left + request * cell + 2,
          y: isWide ? y : y + 40,
          width: cell - 6,
          height,
        }
        const isOwn = chosen === server
        canvas.box(box, [isOwn ? `${request + 1}` : ' '], isOwn ? 'path' : 'faint')
      }
    }
  })
}

function commonDivisor(one: number, other: number): number {
  return other === 0 ? one : commonDivisor(other, one % other)
}
