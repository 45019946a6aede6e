import { UserError } from '../main.ts'

/** What `make measure` is asked for. */
export interface ScalePlan {
  sizes: number[]
  endpoints: number
  memoryMegabytes: number
  /** What it takes on a quiet machine of the kind that the figures below come from. */
  estimateSeconds: number
}

const SMALLEST = 50
const LARGEST = 20_000
const DEFAULT_MAX = 1000
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

/**
 * Sizes, memory and time for `MAX` Services with `ENDPOINTS` each. Half of the sizes are near the largest one, where a line
 * shows its slope. Throws UserError for a number that can't be one.
 */
export function planScale(env: Readonly<Record<string, string | undefined>>): ScalePlan {
  const max = readNumber('MAX', env.MAX, DEFAULT_MAX, SMALLEST, LARGEST)
  const endpoints = readNumber('ENDPOINTS', env.ENDPOINTS, DEFAULT_ENDPOINTS, 1, MOST_ENDPOINTS)
  const sizes = [...new Set([10, 100, 1000, 10_000, 0.3 * max, 0.6 * max, max].map(Math.round))]
    .filter((size) => size <= max)
    .sort((a, b) => a - b)
  return {
    sizes,
    endpoints,
    memoryMegabytes: max * endpoints > 20_000 ? 3072 : 1024,
    estimateSeconds: estimate(sizes, endpoints),
  }
}

const START_SECONDS = 5
const SIZE_SECONDS = 2.2
/** Loading one rule and reading it back, and replacing it in each of about six changes. */
const RULE_SECONDS = 60e-6
const CHANGE_SECONDS = 17e-6
const REAL_SERVER_SECONDS = 0.9e-3

function estimate(sizes: readonly number[], endpoints: number): number {
  const rulesEach = 2 + 3 * endpoints
  const total = sizes.reduce((sum, size) => sum + size, 0)
  const rules = total * rulesEach * (RULE_SECONDS + 6 * CHANGE_SECONDS)
  const servers = (sizes.at(-1) ?? 0) * (endpoints + 1) * REAL_SERVER_SECONDS
  return Math.ceil(START_SECONDS + sizes.length * 2 * SIZE_SECONDS + rules + servers)
}

/** `40 s`, `3 min`. */
export const spokenSeconds = (seconds: number) => (seconds < 100 ? `${seconds} s` : `${Math.round(seconds / 60)} min`)
