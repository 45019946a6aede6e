import { type Figure, figure } from './canvas.ts'

/** Which server gets each of the first requests: an index into `weights` per request. */
type Schedule = (weights: readonly number[], requests: number) => number[]

function roundRobin(weights: readonly number[], requests: number): number[] {
  return Array.from({ length: requests }, (_, request) => request % weights.length)
}

/**
 * Weighted round robin as the kernel has it (net/netfilter/ipvs/ip_vs_wrr.c): a threshold falls
 * from the largest weight by the greatest common divisor of all weights, and servers at or above it
 * are selected in turn.
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
 * The server with the fewest connections in proportion to its weight, if no connection ends
 * (ip_vs_wlc.c without inactive ones).
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

/** The measures of a server's row: requests are beside the name in a wide figure, else below. */
const WIDE_ROWS = { left: 300, step: 108, top: 0, height: 88, baseline: 54 }
const TALL_ROWS = { left: 0, step: 110, top: 40, height: 54, baseline: 28 }

/**
 * Requests in their order, each in the row of the server that gets it. Throws Error for an unknown
 * scheduler.
 */
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
    const { left, step, top, height, baseline } = isWide ? WIDE_ROWS : TALL_ROWS
    const shown = isWide ? order : order.slice(0, 8)
    const cell = Math.min(104, (canvas.width - left) / shown.length)
    for (const [server, weight] of weights.entries()) {
      const y = server * step
      canvas.text(`server ${server + 1}, weight ${weight}`, 0, y + baseline)
      for (const [request, chosen] of shown.entries()) {
        const box = { x: left + request * cell + 2, y: y + top, width: cell - 6, height }
        if (chosen === server) canvas.box(box, [`${request + 1}`], 'path')
        else canvas.box(box, [' '], 'faint')
      }
    }
  })
}

function commonDivisor(one: number, other: number): number {
  return other === 0 ? one : commonDivisor(other, one % other)
}
