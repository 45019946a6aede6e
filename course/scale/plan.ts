import { Refusal } from '../../host/main.ts'

/** The number of measurements. */
export interface MeasurementEffort {
  /**
   * Visits to each size in iptables mode, each time all sizes in ascending order; IPVS mode has one
   * visit.
   */
  visits: number
  /**
   * Blocks of requests, blocks of connections at a rate, and pairs of changes for each mode and
   * size.
   */
  rounds: number
  blocks: number
  changes: number
}

/** The parameters of `make measure`. */
export interface ScalePlan {
  sizes: number[]
  endpoints: number
  memoryMegabytes: number
  effort: MeasurementEffort
  /**
   * The expected duration on an idle machine like the one on which the constants below were
   * measured.
   */
  estimateSeconds: number
}

const SMALLEST = 50
const LARGEST = 20_000
const DEFAULT_MAX = 3000
const DEFAULT_ENDPOINTS = 3
const MOST_ENDPOINTS = 20

function readNumber(
  name: string,
  text: string | undefined,
  fallback: number,
  least: number,
  most: number,
): number {
  const value = Number(text || fallback)
  if (Number.isInteger(value) && value >= least && value <= most) return value
  throw new Refusal(
    `${name} "${text}" is not a whole number from ${least} to ${most}: make measure ${name}=${fallback}`,
  )
}

/**
 * Powers of ten up to the largest size, and two sizes near the largest, which show the slope of a
 * line; without duplicates.
 */
function sizesUpTo(max: number): number[] {
  const decades = [10, 100, 1000, 10_000].filter((size) => size < max)
  const between = [0.3, 0.6]
    .map((part) => Math.round(part * max))
    .filter((size) => decades.every((decade) => Math.max(size / decade, decade / size) > NEAR))
  return [...decades, ...between, max].sort((a, b) => a - b)
}
const NEAR = 1.3

/**
 * Other load on the host changes the speed of memory for half a minute at a time. Several visits
 * measure each size both while memory is fast and while it is slow. Rules are loaded quickly enough
 * for that; virtual servers are not, but show no rise that slow memory could hide.
 */
const USUAL: MeasurementEffort = { visits: 5, rounds: 40, blocks: 80, changes: 5 }

/**
 * A shorter list has a smaller effect, and leaves time for twice as many values. Loading a very
 * long list takes a long time.
 */
function effortFor(max: number, isLarge: boolean): MeasurementEffort {
  if (isLarge) return { ...USUAL, visits: 3 }
  return max < DEFAULT_MAX ? { ...USUAL, rounds: 2 * USUAL.rounds } : USUAL
}

/**
 * The plan for this machine's own kernel: fewer Services, because the programs iptables-restore and
 * nft, which an ordinary user runs on a part of the rules at a time, take most of it. Throws
 * Refusal for an invalid number.
 */
export function planHostScale(
  env: Readonly<Record<string, string | undefined>>,
  effort: MeasurementEffort = HOST_EFFORT,
): ScalePlan {
  const max = readNumber('MAX', env.MAX, HOST_MAX, SMALLEST, LARGEST)
  const endpoints = readNumber('ENDPOINTS', env.ENDPOINTS, DEFAULT_ENDPOINTS, 1, MOST_ENDPOINTS)
  const sizes = sizesUpTo(max)
  const services = sizes.reduce((sum, size) => sum + size, 0)
  const estimateSeconds = 3 * effort.visits * (2.8 * sizes.length + 0.0015 * services * endpoints)
  return { sizes, endpoints, effort, memoryMegabytes: 0, estimateSeconds }
}
const HOST_MAX = 1000
const HOST_EFFORT: MeasurementEffort = { visits: 2, rounds: 32, blocks: 20, changes: 6 }

/**
 * The plan for `MAX` Services with `ENDPOINTS` each. The default of `effort` depends on the sizes.
 * Throws Refusal for an invalid number.
 */
export function planScale(
  env: Readonly<Record<string, string | undefined>>,
  effort?: MeasurementEffort,
): ScalePlan {
  const max = readNumber('MAX', env.MAX, DEFAULT_MAX, SMALLEST, LARGEST)
  const endpoints = readNumber('ENDPOINTS', env.ENDPOINTS, DEFAULT_ENDPOINTS, 1, MOST_ENDPOINTS)
  const isLarge = max * endpoints > 20_000
  const plan = { sizes: sizesUpTo(max), endpoints, effort: effort ?? effortFor(max, isLarge) }
  return { ...plan, memoryMegabytes: isLarge ? 3072 : 1024, estimateSeconds: estimate(plan) }
}

/**
 * Starting programs, reading back the node's state, and the measurements, at each size; then what
 * it takes to program the node.
 */
function estimate({
  sizes,
  endpoints,
  effort,
}: Pick<ScalePlan, 'sizes' | 'endpoints' | 'effort'>): number {
  const { visits, rounds, blocks, changes } = effort
  const measured =
    sizes.length * (1.5 * (visits + 1) + 2 * (0.1 * rounds + 0.16 * blocks + 0.25 * changes))
  const services = sizes.reduce((sum, size) => sum + size, 0)
  const rules = services * (2 + 3 * endpoints) * (40e-6 * visits + 60e-6 * changes)
  const servers = (sizes.at(-1) ?? 0) * (3e-3 + 0.9e-3 * endpoints)
  return 5 + measured + rules + servers
}
