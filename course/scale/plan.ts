import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { UserError } from '../../host/main.ts'

/** The parameters of `make measure`. */
export interface ScalePlan {
  sizes: number[]
  endpoints: number
  memoryMegabytes: number
  /** In the order in which they run. */
  steps: ScaleStep[]
  /** The expected duration on an idle machine like the one on which the constants below were measured. */
  estimateSeconds: number
}

/** One visit of a mode to a size. */
export interface ScaleStep {
  mode: SwitchedMode
  services: number
  /** The number of this visit, from 1, and the number of visits. */
  visit: number
  visits: number
  /** Blocks of requests, blocks of connections at a rate, and pairs of changes in this visit. */
  rounds: number
  blocks: number
  changes: number
  /** Expected duration. */
  seconds: number
}

const SMALLEST = 50
const LARGEST = 20_000
const DEFAULT_MAX = 3000
const DEFAULT_ENDPOINTS = 3
const MOST_ENDPOINTS = 20

function readNumber(name: string, text: string | undefined, fallback: number, least: number, most: number): number {
  if (text === undefined || text === '') return fallback
  const value = Number(text)
  if (Number.isInteger(value) && value >= least && value <= most) return value
  throw new UserError(
    `${name} "${text}" is not a whole number from ${least} to ${most}: make measure ${name}=${fallback}`,
  )
}

/** Powers of ten up to the largest size, and two sizes near the largest, which show the slope of a line; without duplicates. */
function sizesUpTo(max: number): number[] {
  const decades = [10, 100, 1000, 10_000].filter((size) => size < max)
  const between = [0.3, 0.6]
    .map((part) => Math.round(part * max))
    .filter((size) => decades.every((decade) => Math.max(size / decade, decade / size) > NEAR))
  return [...decades, ...between, max].sort((a, b) => a - b)
}
const NEAR = 1.3

/** The number of measurements. */
export interface Effort {
  /** Visits to each size in iptables mode, each time all sizes in ascending order; IPVS mode has one visit. */
  visits: number
  /** Blocks of requests, blocks of connections at a rate, and pairs of changes for each mode and size. */
  rounds: number
  blocks: number
  changes: number
}

/**
 * Other load on the host changes the speed of memory for half a minute at a time. Several visits measure each size both while
 * memory is fast and while it is slow. Rules are loaded quickly enough for that; virtual servers are not, but show no rise that
 * slow memory could hide.
 */
const USUAL: Effort = { visits: 5, rounds: 40, blocks: 80, changes: 5 }

/** A shorter list has a smaller effect, and leaves time for twice as many values. Loading a very long list takes a long time. */
function effortFor(max: number, isLarge: boolean): Effort {
  if (isLarge) return { ...USUAL, visits: 3 }
  return max < DEFAULT_MAX ? { ...USUAL, rounds: 2 * USUAL.rounds } : USUAL
}

/**
 * Sizes, memory, steps and time for `MAX` Services with `ENDPOINTS` each. The default of `effort` depends on the sizes. Throws
 * UserError for an invalid number.
 */
export function planScale(env: Readonly<Record<string, string | undefined>>, effort?: Effort): ScalePlan {
  const max = readNumber('MAX', env.MAX, DEFAULT_MAX, SMALLEST, LARGEST)
  const endpoints = readNumber('ENDPOINTS', env.ENDPOINTS, DEFAULT_ENDPOINTS, 1, MOST_ENDPOINTS)
  const isLarge = max * endpoints > 20_000
  const sizes = sizesUpTo(max)
  const steps = stepsOf(sizes, endpoints, effort ?? effortFor(max, isLarge))
  const estimateSeconds = steps.reduce((sum, { seconds }) => sum + seconds, START_SECONDS)
  return { sizes, endpoints, memoryMegabytes: isLarge ? 3072 : 1024, steps, estimateSeconds }
}

const START_SECONDS = 5
/** Starting programs, and reading back the node's state. */
const VISIT_SECONDS = 1.5
const ROUND_SECONDS = 0.1
const BLOCK_SECONDS = 0.16
/** One pair of changes. */
const CHANGES_SECONDS = 0.25
/** Loading and reading back one rule, and its share of a pair of changes. */
const RULE_SECONDS = 40e-6
const CHANGED_RULE_SECONDS = 60e-6
/** An address, a set member and a virtual server; and each real server. */
const SERVER_SECONDS = 3e-3
const REAL_SERVER_SECONDS = 0.9e-3

/**
 * All sizes in ascending order: first in iptables mode, several times, then in IPVS mode, where each size adds to the previous
 * one.
 */
function stepsOf(sizes: readonly number[], endpoints: number, effort: Effort): ScaleStep[] {
  return (['iptables', 'ipvs'] as const).flatMap((mode) => {
    const visits = mode === 'iptables' ? effort.visits : 1
    const share = (count: number) => Math.ceil(count / visits)
    const [rounds, blocks, changes] = [share(effort.rounds), share(effort.blocks), share(effort.changes)]
    return Array.from({ length: visits }, (_, before) =>
      sizes.map((services, index): ScaleStep => {
        const added = services - (sizes[index - 1] ?? 0)
        const program =
          mode === 'iptables'
            ? services * (2 + 3 * endpoints) * (RULE_SECONDS + changes * CHANGED_RULE_SECONDS)
            : added * (SERVER_SECONDS + endpoints * REAL_SERVER_SECONDS)
        const taken = rounds * ROUND_SECONDS + blocks * BLOCK_SECONDS + changes * CHANGES_SECONDS
        const seconds = VISIT_SECONDS + taken + program
        return { mode, services, visit: before + 1, visits, rounds, blocks, changes, seconds }
      }),
    ).flat()
  })
}

/** The remaining seconds from step `next` on, scaled by the ratio of elapsed to expected time of the previous steps. */
export function secondsLeft(steps: readonly { seconds: number }[], next: number, elapsed: number): number {
  const expected = (some: readonly { seconds: number }[]) => some.reduce((sum, { seconds }) => sum + seconds, 0)
  const pace = next === 0 ? 1 : elapsed / expected(steps.slice(0, next))
  return expected(steps.slice(next)) * pace
}

/** `40 s`, `3 min`. */
export const formatSeconds = (seconds: number) =>
  seconds < 100 ? `${Math.ceil(seconds)} s` : `${Math.round(seconds / 60)} min`
