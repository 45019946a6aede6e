// How many of a number of requests each Pod answered: counted from the access logs, compared with a
// share, drawn as bars.

import type { WebBackend } from './expect-object.ts'
import type { LoggedRequest } from './traffic.ts'

/** The number of requests that one Pod answered. */
export interface PodShare {
  pod: string
  node: string
  requests: number
}

/**
 * More than this many standard deviations between a measured and an expected share occur once in a
 * million times.
 */
const TOLERANCE = 5

/** True if this number of requests is likely for a part of all. */
export const isLikelyShare = (requests: number, total: number, part: number): boolean =>
  Math.abs(requests - total * part) <= TOLERANCE * Math.sqrt(total * part * (1 - part))

/** The answers of each Pod, including Pods without any. */
export const countByPod = (
  backends: readonly WebBackend[],
  logged: readonly LoggedRequest<WebBackend>[],
): PodShare[] =>
  backends.map(({ pod, node }) => ({
    pod,
    node,
    requests: logged.filter(({ backend }) => backend.pod === pod).length,
  }))

/** One bar: its labels and its count. */
export interface CountedBar {
  labels: readonly string[]
  count: number
}

/** Columns for 100 %. */
const WIDTH = 30

/**
 * Draws counts as bars, one line each: labels in columns, the percentage, the count, and a bar of
 * proportional length, which may be cut off.
 */
export function shareBars(bars: readonly CountedBar[]): string[] {
  const total = bars.reduce((sum, { count }) => sum + count, 0)
  const widths = (bars[0]?.labels ?? []).map((_, column) =>
    Math.max(...bars.map(({ labels }) => labels[column]?.length ?? 0)),
  )
  const part = (count: number) => (total === 0 ? 0 : count / total)
  const counts = bars.map(({ count }) => `(${count})`)
  const longest = Math.max(0, ...counts.map(({ length }) => length))
  return bars.map(({ labels, count }, index) => {
    const half = Math.round(part(count) * WIDTH * 2)
    const bar = `${'█'.repeat(Math.floor(half / 2))}${half % 2 === 1 ? '▌' : ''}`
    const names = labels.map((label, column) => label.padEnd(widths[column] ?? 0))
    return [
      ...names,
      `${(part(count) * 100).toFixed(1).padStart(5)} %`,
      counts[index]?.padStart(longest),
      bar,
    ]
      .join('  ')
      .trimEnd()
  })
}

/** Counts by Pod as bars. */
export const barsByPod = (shares: readonly PodShare[]): CountedBar[] =>
  shares.map(({ pod, node, requests }) => ({ labels: [pod, node], count: requests }))
