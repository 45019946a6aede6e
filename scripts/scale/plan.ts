import type { MeasuredMode } from '../../checks/06-scale/measurement.ts'
import { UserError } from '../main.ts'

/** What `make measure` is asked for. */
export interface ScalePlan {
  sizes: number[]
  endpoints: number
  memoryMegabytes: number
  /** Values of each quantity at each size. */
  rounds: number
  /** What it takes on a quiet machine of the kind that the figures below come from. */
  estimateSeconds: number
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

/** Powers of ten up to the largest size, and two sizes near it, where a line shows its slope; none twice. */
function sizesUpTo(max: number): number[] {
  const decades = [10, 100, 1000, 10_000].filter((size) => size < max)
  const between = [0.3, 0.6]
    .map((part) => Math.round(part * max))
    .filter((size) => decades.every((decade) => Math.max(size / decade, decade / size) > NEAR))
  return [...decades, ...between, max].sort((a, b) => a - b)
}
const NEAR = 1.3

/**
 * Sizes, memory and time for `MAX` Services with `ENDPOINTS` each. Throws UserError for a number that can't be one.
 */
export function planScale(env: Readonly<Record<string, string | undefined>>): ScalePlan {
  const max = readNumber('MAX', env.MAX, DEFAULT_MAX, SMALLEST, LARGEST)
  const endpoints = readNumber('ENDPOINTS', env.ENDPOINTS, DEFAULT_ENDPOINTS, 1, MOST_ENDPOINTS)
  const sizes = sizesUpTo(max)
  // A shorter list is felt less: there is time to look twice as often.
  const rounds = max < DEFAULT_MAX ? 2 * ROUNDS : ROUNDS
  return {
    sizes,
    endpoints,
    memoryMegabytes: max * endpoints > 20_000 ? 3072 : 1024,
    rounds,
    estimateSeconds: stepsOf(sizes, endpoints, rounds).reduce((sum, { seconds }) => sum + seconds, START_SECONDS),
  }
}

const START_SECONDS = 5
const ROUNDS = 15
/** All that does not depend on the size: requests, connections at a rate, the fewest changes. */
const SIZE_SECONDS = 2
const ROUND_SECONDS = 0.35
/** Loading a rule and reading it back, and what it adds to each change. */
const RULE_SECONDS = 100e-6
const CHANGE_SECONDS = 20e-6
const CHANGES = 8
/** An address, a member of a set and a virtual server, and a real server more. */
const SERVER_SECONDS = 3e-3
const REAL_SERVER_SECONDS = 0.9e-3

/** What a size costs in iptables mode, and in IPVS mode on top of the size before. */
function programSeconds(mode: MeasuredMode, services: number, before: number, endpoints: number): number {
  if (mode === 'iptables') return services * (2 + 3 * endpoints) * (RULE_SECONDS + CHANGES * CHANGE_SECONDS)
  return (services - before) * (SERVER_SECONDS + endpoints * REAL_SERVER_SECONDS)
}

/** Both modes at all sizes, in the order in which they are measured. */
export const stepsOf = (sizes: readonly number[], endpoints: number, rounds: number) =>
  (['iptables', 'ipvs'] as const).flatMap((mode) =>
    sizes.map((services, index) => {
      const program = programSeconds(mode, services, sizes[index - 1] ?? 0, endpoints)
      return { mode, services, seconds: SIZE_SECONDS + rounds * ROUND_SECONDS + program }
    }),
  )

/** What is left of the steps from this one on, by how much longer than expected those before took. */
export function secondsLeft(steps: readonly { seconds: number }[], next: number, elapsed: number): number {
  const expected = (some: readonly { seconds: number }[]) => some.reduce((sum, { seconds }) => sum + seconds, 0)
  const pace = next === 0 ? 1 : elapsed / expected(steps.slice(0, next))
  return expected(steps.slice(next)) * pace
}

/** `40 s`, `3 min`. */
export const spokenSeconds = (seconds: number) =>
  seconds < 100 ? `${Math.ceil(seconds)} s` : `${Math.round(seconds / 60)} min`
