import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { UserError } from '../../host/main.ts'

/** The parameters of `make measure`. */
export interface ScalePlan {
  sizes: number[]
  endpoints: number
  memoryMegabytes: number
  /** In the order in which they are taken. */
  steps: ScaleStep[]
  /** What it takes on a quiet machine of the kind that the figures below come from. */
  estimateSeconds: number
}

/** One visit of a mode to a size. */
export interface ScaleStep {
  mode: SwitchedMode
  services: number
  /** Which visit of how many, from 1. */
  visit: number
  visits: number
  /** Values of requests and of connections at a rate, and pairs of changes, that this visit takes. */
  rounds: number
  blocks: number
  changes: number
  /** What it takes on that machine. */
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

/** Powers of ten up to the largest size, and two sizes near it, where a line shows its slope; none twice. */
function sizesUpTo(max: number): number[] {
  const decades = [10, 100, 1000, 10_000].filter((size) => size < max)
  const between = [0.3, 0.6]
    .map((part) => Math.round(part * max))
    .filter((size) => decades.every((decade) => Math.max(size / decade, decade / size) > NEAR))
  return [...decades, ...between, max].sort((a, b) => a - b)
}
const NEAR = 1.3

/** How much is measured. */
export interface Effort {
  /** To each size in iptables mode, all of them in growing order each time; IPVS mode has one. */
  visits: number
  /** Values of requests and of connections at a rate, and pairs of changes, for each mode and size. */
  rounds: number
  blocks: number
  changes: number
}

/**
 * What else runs on the host changes what memory costs, for half a minute at a time: all sizes in turn, several times, are each
 * measured while memory is fast and while it is slow. Rules are loaded quickly; virtual servers are not, and show no rise that it could hide.
 */
const USUAL: Effort = { visits: 5, rounds: 40, blocks: 80, changes: 5 }

/** A shorter list has a smaller effect, and there is time for twice as many values. A very long one takes long to load. */
function effortFor(max: number, isLarge: boolean): Effort {
  if (isLarge) return { ...USUAL, visits: 3 }
  return max < DEFAULT_MAX ? { ...USUAL, rounds: 2 * USUAL.rounds } : USUAL
}

/**
 * Sizes, memory, steps and time for `MAX` Services with `ENDPOINTS` each. `effort` is what suits them when it is left out. Throws
 * UserError for a number that can't be one.
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
/** Starting programs, and reading back what the node holds. */
const VISIT_SECONDS = 1.5
const ROUND_SECONDS = 0.1
const BLOCK_SECONDS = 0.16
/** A pair of them. */
const CHANGES_SECONDS = 0.25
/** Loading a rule and reading it back, and what it adds to a pair of changes. */
const RULE_SECONDS = 40e-6
const CHANGED_RULE_SECONDS = 60e-6
/** An address, a member of a set and a virtual server, and a real server more. */
const SERVER_SECONDS = 3e-3
const REAL_SERVER_SECONDS = 0.9e-3

/** All sizes in growing order, in iptables mode several times, then in IPVS mode, where each adds to the one before. */
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

/** What is left of the steps from this one on, by how much longer than expected those before took. */
export function secondsLeft(steps: readonly { seconds: number }[], next: number, elapsed: number): number {
  const expected = (some: readonly { seconds: number }[]) => some.reduce((sum, { seconds }) => sum + seconds, 0)
  const pace = next === 0 ? 1 : elapsed / expected(steps.slice(0, next))
  return expected(steps.slice(next)) * pace
}

/** `40 s`, `3 min`. */
export const spokenSeconds = (seconds: number) =>
  seconds < 100 ? `${Math.ceil(seconds)} s` : `${Math.round(seconds / 60)} min`
