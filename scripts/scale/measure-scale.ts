import type { MeasuredMode, Measurement, Point } from '../../checks/06-scale/measurement.ts'
import type { Counts } from '../../checks/06-scale/scene.ts'
import { syntheticClusterIP } from '../../checks/06-scale/synthetic-cluster.ts'
import type { Progress } from '../../cluster/driver.ts'
import { cpuNanos } from './kernel-cpu.ts'
import type { Cost, Inventory, MeasuringNode } from './measuring-node.ts'
import { connectAtRate, requestTimes } from './node-programs.ts'
import { Pace, type Paced } from './pace.ts'
import { secondsLeft, spokenSeconds, stepsOf } from './plan.ts'
import { iptablesMode, ipvsMode, type ProgrammedMode } from './programmed-mode.ts'

export interface ScaleOptions {
  sizes: readonly number[]
  endpoints: number
  machine: string
  /** How many values of each quantity are taken at each size. */
  rounds: number
  /** How often they are taken again while something else slows the machine down. */
  patience: number
  /** Is shown what the node holds in each mode at each size. */
  look?: (mode: MeasuredMode, services: number, held: Inventory) => void
}

/** New connections a second while the CPU is looked at, and how many of them make a round. */
const RATE = 400
const ROUND = 40
/** Requests of which the medians make one value. */
const REQUESTS_A_BLOCK = 40
/** A change is repeated until this time is used up, at least so often and at most so often. */
const CHANGE_MS = 800
const FEWEST_CHANGES = 8
const MOST_CHANGES = 16

/**
 * Measures both modes on one node, iptables first, at every size in growing order.
 * @throws Error when the last Service does not answer, or a program of the node refuses its input
 */
export async function measureScale(
  node: MeasuringNode,
  { sizes, endpoints, machine, rounds, patience, look }: ScaleOptions,
  progress: Progress,
): Promise<Measurement> {
  const began = performance.now()
  const elapsed = () => (performance.now() - began) / 1000
  const modes = { iptables: iptablesMode(node, endpoints), ipvs: ipvsMode(node, endpoints) }
  const points: Record<MeasuredMode, Point[]> = { iptables: [], ipvs: [] }
  const pace = new Pace(patience)
  const steps = stepsOf(sizes, endpoints, rounds)
  for (const [index, { mode: name, services }] of steps.entries()) {
    progress.start(`${name === 'ipvs' ? 'IPVS' : name} mode, ${services} Services`)
    const mode = modes[name]
    const program = await mode.program(services)
    const held = await node.inventory()
    look?.(name, services, held)
    points[name].push({
      services,
      ...held.counts,
      ...(await measurePoint(node, mode, services, rounds, pace)),
      ...spent(program),
    })
    const left = secondsLeft(steps, index + 1, elapsed())
    const toGo = left > 0 ? `, about ${spokenSeconds(left)} to go` : ''
    progress.end(true, `${held.counts.rules} rules, ${held.counts.virtualServers} virtual servers${toGo}`)
  }
  const seconds = rounded(elapsed())
  return { at: new Date().toISOString(), machine, endpoints, rate: RATE, seconds, ...points }
}

async function measurePoint(
  node: MeasuringNode,
  mode: ProgrammedMode,
  services: number,
  rounds: number,
  pace: Pace,
): Promise<Omit<Point, 'services' | 'programMs' | 'programCpuMs' | keyof Counts>> {
  const addresses = [0, services - 1].map(syntheticClusterIP)
  const asked = await pace.steadiest(rounds, () => askBlocks(node, addresses, rounds))
  const connected = await pace.steadiest(rounds, () => connectPairs(node, addresses, rounds))
  return {
    newMicros: asked.map(({ fresh }) => micros(fresh)),
    newMoreMicros: asked.map(({ freshMore }) => micros(freshMore)),
    keptMicros: asked.map(({ kept }) => micros(kept)),
    keptMoreMicros: asked.map(({ keptMore }) => micros(keptMore)),
    workMicros: asked.map(({ work }) => micros(work)),
    busy: connected.map(({ last }) => fine(last)),
    busyMore: connected.map(({ first, last }) => fine(last - first)),
    ...(await changes(mode, rounds)),
  }
}

const spent = ({ ms, cpuMs }: Cost) => ({ programMs: rounded(ms), programCpuMs: rounded(cpuMs) })

/** What a block of requests came to, in nanoseconds. */
interface AskedBlock extends Paced {
  fresh: number
  freshMore: number
  kept: number
  keptMore: number
}

async function askBlocks(node: MeasuringNode, addresses: readonly string[], rounds: number): Promise<AskedBlock[]> {
  const lines = await node.ask(requestTimes, [rounds, REQUESTS_A_BLOCK, 80, ...addresses])
  return lines.map(([fresh = NaN, freshMore = NaN, kept = NaN, keptMore = NaN, work = NaN]) => {
    // The two requests of a round together: one alone would choose blocks by the very difference that is looked for.
    return { fresh, freshMore, kept, keptMore, work, took: 2 * fresh - freshMore }
  })
}

/** Parts of a core that the node used for connections to the first Service, and right after that for some to the last. */
interface ConnectedPair extends Paced {
  first: number
  last: number
}

/** What the host's processors spend on the node while it opens connections, for each of the two addresses in turn. */
async function connectPairs(
  node: MeasuringNode,
  addresses: readonly string[],
  rounds: number,
): Promise<ConnectedPair[]> {
  const turns: { part: number; work: number }[] = []
  let processes: number[] | undefined
  let before = 0
  await node.follow(connectAtRate, [RATE, ROUND, rounds, 80, ...addresses], (line) => {
    // Not earlier: the client is one of them.
    processes ??= node.processes()
    const now = cpuNanos(processes)
    const work = /^end (\d+)/.exec(line)?.[1]
    if (work === undefined) before = now
    else turns.push({ part: ((now - before) / 1e9 / ROUND) * RATE, work: Number(work) })
  })
  return turns.flatMap((first, index) => {
    const last = turns[index + 1]
    if (index % 2 === 1 || !last) return []
    return [{ first: first.part, last: last.part, work: Math.max(first.work, last.work) }]
  })
}

/**
 * The faster half of an even number of changes, so that the node ends as it began: starting a program is what a busy machine is
 * slowest at, and nothing makes it faster than it is.
 */
async function changes(mode: ProgrammedMode, rounds: number): Promise<Pick<Point, 'changeMs' | 'changeCpuMs'>> {
  const taken: Cost[] = []
  const fewest = Math.min(2 * rounds, FEWEST_CHANGES)
  const deadline = performance.now() + CHANGE_MS
  while (taken.length < fewest || (performance.now() < deadline && taken.length < MOST_CHANGES))
    taken.push(await mode.change(), await mode.change())
  const faster = taken.sort((a, b) => a.ms - b.ms).slice(0, taken.length / 2)
  return {
    changeMs: faster.map(({ ms }) => rounded(ms)),
    changeCpuMs: faster.map(({ cpuMs }) => rounded(cpuMs)),
  }
}

const rounded = (value: number) => Math.round(value * 10) / 10
const micros = (nanos: number) => rounded(nanos / 1000)
const fine = (part: number) => Math.round(part * 1e5) / 1e5
