import { programText } from '../../host/program-text.ts'
import type { MeasuringNode } from './measuring-node.ts'

/** New connections per second while CPU use is measured. */
export const RATE = 500
/** Rounds per block: the medians of a block are one value. */
const ROUNDS = 40

/** The medians of a block of rounds, and the speed of the machine during it. */
export interface RoundBlock {
  /**
   * In nanoseconds, two for each quantity: to the last Service, and the difference to the first in
   * the same round.
   */
  medians: readonly number[]
  /** Duration of a fixed piece of work without network, which is the same in the whole run. */
  work: number
}

/**
 * Requests on a new and on an open connection: their durations, alternately to the first and to the
 * last of two addresses. A process of the measuring node sends them.
 */
export const timeRequests = (
  node: MeasuringNode,
  addresses: readonly string[],
  blocks: number,
): Promise<RoundBlock[]> => timeBlocks(node, ONE_AFTER_THE_OTHER, addresses, blocks)

/**
 * New connections at a fixed rate: the time that the node, which has one processor, was busy with
 * each.
 */
export const timeConnections = (
  node: MeasuringNode,
  addresses: readonly string[],
  blocks: number,
): Promise<RoundBlock[]> => timeBlocks(node, RATE, addresses, blocks)

async function timeBlocks(
  node: MeasuringNode,
  rate: number,
  addresses: readonly string[],
  blocks: number,
) {
  const lines = await node.ask(client, [rate, blocks, ROUNDS, ...addresses])
  return lines.map(
    (numbers): RoundBlock => ({
      medians: numbers.slice(0, -1),
      work: numbers.at(-1) ?? Number.NaN,
    }),
  )
}

/**
 * A block whose fixed work takes this multiple of the fastest one was slowed down by other
 * processes.
 */
const SLOWED = 1.2
/** Minimum share of the blocks to keep, even if most were slowed down. */
const KEPT = 2 / 3

/**
 * To the first and the last Service together: one of them would select blocks by the difference
 * that is measured.
 */
const totalOf = ({ medians: [last = Number.NaN, more = Number.NaN] }: RoundBlock): number =>
  2 * last - more

/**
 * The blocks of one size that were not slowed down by other load, in their original order; at least
 * two thirds of all, the least affected ones first. `fastest` is the shortest duration of the fixed
 * work in the whole run.
 */
export function selectUndisturbed(all: readonly RoundBlock[], fastest: number): RoundBlock[] {
  const shortest = Math.min(...all.map(totalOf))
  const slowed = (block: RoundBlock) => Math.max(block.work / fastest, totalOf(block) / shortest)
  const sorted = [...all].sort((a, b) => slowed(a) - slowed(b))
  const fewest = Math.ceil(all.length * KEPT)
  const kept = new Set(sorted.filter((one, index) => index < fewest || slowed(one) <= SLOWED))
  return all.filter((one) => kept.has(one))
}

/**
 * A client in Perl, which every Debian has. Starting a process in the guest takes 20 ms, so one
 * process sends all requests; it blocks, so that no event loop affects the figures. Time::HiRes is
 * not part of perl-base; clock_gettime is the system call 228 of x86-64 and 113 of arm64,
 * sched_yield 24 and 124.
 *
 * Arguments: connections per second (or 0: requests one after the other), blocks, rounds per block,
 * first address, last address. At a rate the node is idle in between, and the client has the lowest
 * priority: the time for a connection ends when it runs again. Each round takes a turn with both
 * addresses, in random order, so that other load on the machine affects both. `turn` returns the
 * duration of each quantity for one address. Prints one line per block with medians in nanoseconds:
 * two for each quantity (Block.medians), and the fixed piece of work. A reset closes each
 * connection, so that no port stays in TIME_WAIT for two minutes.
 */
const ONE_AFTER_THE_OTHER = 0
const client = programText('course/scale/timed-requests.pl')
