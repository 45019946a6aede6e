import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { Progress } from '../../host/progress.ts'
import type { Measurement, Point } from './measurement.ts'
import type { Cost, Inventory, MeasuringNode } from './measuring-node.ts'
import { connectAtRate, requestTimes } from './node-programs.ts'
import { type ScalePlan, secondsLeft, spokenSeconds } from './plan.ts'
import { iptablesMode, ipvsMode, type ProgrammedMode } from './programmed-mode.ts'
import { syntheticClusterIP } from './synthetic-cluster.ts'

/** A measured value, and how fast the machine was meanwhile. */
interface Paced {
  /** What a fixed piece of work took, the same in the whole run. */
  work: number
  /** What all of it took, where that is the same in each block at this size. */
  took: number
}

/** A block whose fixed work takes this multiple of the fastest one was slowed down by other processes. */
const SLOWED = 1.2
/** Share of the blocks that is kept at least, even if most of them were slowed down. */
const KEPT = 2 / 3

/**
 * The values of one size that were measured while no other load slowed the machine down, in the order in which it was; at least two
 * thirds of all, then those that suffered least. `fastest` is the shortest that the fixed work has taken in the whole run.
 */
export function steadiest<Measured extends Paced>(all: readonly Measured[], fastest: number): Measured[] {
  const shortest = Math.min(...all.map(({ took }) => took))
  const slowed = ({ work, took }: Measured) => Math.max(work / fastest, took / shortest)
  const sorted = [...all].sort((a, b) => slowed(a) - slowed(b))
  const fewest = Math.ceil(all.length * KEPT)
  const kept = new Set(sorted.filter((one, index) => index < fewest || slowed(one) <= SLOWED))
  return all.filter((one) => kept.has(one))
}

export interface ScaleOptions {
  plan: Pick<ScalePlan, 'endpoints' | 'steps'>
  machine: string
  /** Is shown what the node holds in each mode at each size. */
  look?: (mode: SwitchedMode, services: number, held: Inventory) => void
}

/** New connections a second while the CPU is looked at, and to each Service in a block of which the medians make one value. */
const RATE = 500
const CONNECTIONS_A_BLOCK = 40
/** Requests of which the medians make one value. */
const REQUESTS_A_BLOCK = 40

/** What one mode has shown at one size, on one visit or several. */
interface Visited {
  held: Inventory
  program: Cost
  asked: AskedBlock[]
  connected: ConnectedBlock[]
  changes: Cost[]
}

/**
 * Measures both modes on one node as planned.
 * @throws Error when the last Service does not answer, or a program of the node refuses its input
 */
export async function measureScale(
  node: MeasuringNode,
  { plan: { endpoints, steps }, machine, look }: ScaleOptions,
  progress: Progress,
): Promise<Measurement> {
  const began = performance.now()
  const elapsed = () => (performance.now() - began) / 1000
  const modes = { iptables: iptablesMode(node, endpoints), ipvs: ipvsMode(node, endpoints) }
  const visited = { iptables: new Map<number, Visited>(), ipvs: new Map<number, Visited>() }
  for (const [index, { mode, services, visit, visits, rounds, blocks, changes }] of steps.entries()) {
    const again = visits > 1 ? `, ${visit} of ${visits}` : ''
    progress.start(`${mode === 'ipvs' ? 'IPVS' : mode} mode, ${services} Services${again}`)
    const program = await modes[mode].program(services)
    const before = visited[mode].get(services)
    const held = before?.held ?? (await node.inventory())
    if (!before) look?.(mode, services, held)
    const addresses = [0, services - 1].map(syntheticClusterIP)
    visited[mode].set(services, {
      held,
      program: before?.program ?? program,
      asked: [...(before?.asked ?? []), ...(await askBlocks(node, addresses, rounds))],
      connected: [...(before?.connected ?? []), ...(await connectBlocks(node, addresses, blocks))],
      changes: [...(before?.changes ?? []), ...(await makeChanges(modes[mode], changes))],
    })
    const left = secondsLeft(steps, index + 1, elapsed())
    const toGo = left > 0 ? `, about ${spokenSeconds(left)} to go` : ''
    progress.end(true, `${held.counts.rules} rules, ${held.counts.virtualServers} virtual servers${toGo}`)
  }
  const all = [...visited.iptables.values(), ...visited.ipvs.values()]
  const fastest = Math.min(...all.flatMap(({ asked, connected }) => [...asked, ...connected].map(({ work }) => work)))
  const points = (mode: SwitchedMode) => [...visited[mode]].map(([services, one]) => pointOf(services, one, fastest))
  return {
    at: new Date().toISOString(),
    machine,
    endpoints,
    rate: RATE,
    seconds: rounded(elapsed()),
    iptables: points('iptables'),
    ipvs: points('ipvs'),
  }
}

function pointOf(services: number, { held, program, changes, ...blocks }: Visited, fastest: number): Point {
  const asked = steadiest(blocks.asked, fastest)
  const connected = steadiest(blocks.connected, fastest)
  // Starting a program is what a busy machine is slowest at, and nothing makes it faster than it is.
  const faster = [...changes].sort((a, b) => a.ms - b.ms).slice(0, changes.length / 2)
  return {
    services,
    ...held.counts,
    programMs: rounded(program.ms),
    programCpuMs: rounded(program.cpuMs),
    changeMs: faster.map(({ ms }) => rounded(ms)),
    changeCpuMs: faster.map(({ cpuMs }) => rounded(cpuMs)),
    newMicros: asked.map(({ fresh }) => micros(fresh)),
    newMoreMicros: asked.map(({ freshMore }) => micros(freshMore)),
    keptMicros: asked.map(({ kept }) => micros(kept)),
    keptMoreMicros: asked.map(({ keptMore }) => micros(keptMore)),
    workMicros: asked.map(({ work }) => micros(work)),
    busy: connected.map(({ last }) => partOfCore(last)),
    busyMore: connected.map(({ lastMore }) => partOfCore(lastMore)),
  }
}

/** What a block of requests came to, in nanoseconds. */
interface AskedBlock extends Paced {
  fresh: number
  freshMore: number
  kept: number
  keptMore: number
}

export async function askBlocks(
  node: MeasuringNode,
  addresses: readonly string[],
  blocks: number,
): Promise<AskedBlock[]> {
  const lines = await node.ask(requestTimes, [blocks, REQUESTS_A_BLOCK, 80, ...addresses])
  return lines.map(([fresh = NaN, freshMore = NaN, kept = NaN, keptMore = NaN, work = NaN]) => {
    // The two requests of a round together: one alone would choose blocks by the very difference that is looked for.
    return { fresh, freshMore, kept, keptMore, work, took: 2 * fresh - freshMore }
  })
}

/** How long the node was busy with a new connection at the fixed rate, in nanoseconds. */
interface ConnectedBlock extends Paced {
  last: number
  lastMore: number
}

async function connectBlocks(
  node: MeasuringNode,
  addresses: readonly string[],
  blocks: number,
): Promise<ConnectedBlock[]> {
  const lines = await node.ask(connectAtRate, [blocks, CONNECTIONS_A_BLOCK, RATE, 80, ...addresses])
  return lines.map(([last = NaN, lastMore = NaN, work = NaN]) => ({ last, lastMore, work, took: 2 * last - lastMore }))
}

/** Pairs of changes, there and back, so that the node ends as it began. */
export async function makeChanges(mode: ProgrammedMode, pairs: number): Promise<Cost[]> {
  const taken: Cost[] = []
  while (taken.length < 2 * pairs) taken.push(await mode.change(), await mode.change())
  return taken
}

const rounded = (value: number) => Math.round(value * 10) / 10
const micros = (nanos: number) => rounded(nanos / 1000)
/** Converts nanoseconds per connection to the busy share at the fixed rate. */
const partOfCore = (nanos: number) => Math.round((nanos / 1e9) * RATE * 1e5) / 1e5
