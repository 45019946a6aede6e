import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import type { Progress } from '../../host/progress.ts'
import type { Measurement, Point } from './measurement.ts'
import type { Cost, Inventory, MeasuringNode } from './measuring-node.ts'
import { connectAtRate, requestTimes } from './node-programs.ts'
import { formatSeconds, type ScalePlan, secondsLeft } from './plan.ts'
import { iptablesMode, ipvsMode, type ProgrammedMode } from './programmed-mode.ts'
import { syntheticClusterIP } from './synthetic-cluster.ts'

/** A block of measurements, and the speed of the machine during it. */
interface TimedBlock {
  /** Duration of a fixed piece of work, which is the same in the whole run. */
  work: number
  /** Duration of the part that is equal in all blocks of one size. */
  totalNs: number
}

/** A block whose fixed work takes this multiple of the fastest one was slowed down by other processes. */
const SLOWED = 1.2
/** Minimum share of the blocks to keep, even if most were slowed down. */
const KEPT = 2 / 3

/**
 * The blocks of one size that were not slowed down by other load, in their original order; at least two thirds of all, the least
 * affected ones first. `fastest` is the shortest duration of the fixed work in the whole run.
 */
export function selectUndisturbed<Measured extends TimedBlock>(all: readonly Measured[], fastest: number): Measured[] {
  const shortest = Math.min(...all.map(({ totalNs }) => totalNs))
  const slowed = ({ work, totalNs }: Measured) => Math.max(work / fastest, totalNs / shortest)
  const sorted = [...all].sort((a, b) => slowed(a) - slowed(b))
  const fewest = Math.ceil(all.length * KEPT)
  const kept = new Set(sorted.filter((one, index) => index < fewest || slowed(one) <= SLOWED))
  return all.filter((one) => kept.has(one))
}

export interface ScaleOptions {
  plan: Pick<ScalePlan, 'endpoints' | 'steps'>
  machine: string
  /** Called with the node's state in each mode at each size. */
  look?: (mode: SwitchedMode, services: number, held: Inventory) => void
}

/**
 * New connections per second while CPU use is measured, and connections to each Service per block; the medians of a block are
 * one value.
 */
const RATE = 500
const CONNECTIONS_A_BLOCK = 40
/** Requests per block; the medians of a block are one value. */
const REQUESTS_A_BLOCK = 40

/** The measurements of one mode at one size, from all visits. */
interface SizeSamples {
  held: Inventory
  program: Cost
  requests: RequestBlock[]
  connections: ConnectionBlock[]
  changes: Cost[]
}

/**
 * Measures both modes on one node as planned.
 * @throws Error if the last Service does not answer, or a program on the node rejects its input
 */
export async function measureScale(
  node: MeasuringNode,
  { plan: { endpoints, steps }, machine, look }: ScaleOptions,
  progress: Progress,
): Promise<Measurement> {
  const began = performance.now()
  const elapsed = () => (performance.now() - began) / 1000
  const modes = { iptables: iptablesMode(node, endpoints), ipvs: ipvsMode(node, endpoints) }
  const samples = { iptables: new Map<number, SizeSamples>(), ipvs: new Map<number, SizeSamples>() }
  for (const [index, { mode, services, visit, visits, rounds, blocks, changes }] of steps.entries()) {
    const again = visits > 1 ? `, ${visit} of ${visits}` : ''
    progress.start(`${mode === 'ipvs' ? 'IPVS' : mode} mode, ${services} Services${again}`)
    const program = await modes[mode].program(services)
    const before = samples[mode].get(services)
    const held = before?.held ?? (await node.inventory())
    if (!before) look?.(mode, services, held)
    const addresses = [0, services - 1].map(syntheticClusterIP)
    samples[mode].set(services, {
      held,
      program: before?.program ?? program,
      requests: [...(before?.requests ?? []), ...(await measureRequests(node, addresses, rounds))],
      connections: [...(before?.connections ?? []), ...(await measureConnections(node, addresses, blocks))],
      changes: [...(before?.changes ?? []), ...(await measureChanges(modes[mode], changes))],
    })
    const left = secondsLeft(steps, index + 1, elapsed())
    const remaining = left > 0 ? `, about ${formatSeconds(left)} left` : ''
    progress.end(true, `${held.counts.rules} rules, ${held.counts.virtualServers} virtual servers${remaining}`)
  }
  const all = [...samples.iptables.values(), ...samples.ipvs.values()]
  const fastest = Math.min(
    ...all.flatMap(({ requests, connections }) => [...requests, ...connections].map(({ work }) => work)),
  )
  const points = (mode: SwitchedMode) => [...samples[mode]].map(([services, one]) => pointOf(services, one, fastest))
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

function pointOf(services: number, { held, program, changes, ...blocks }: SizeSamples, fastest: number): Point {
  const requests = selectUndisturbed(blocks.requests, fastest)
  const connections = selectUndisturbed(blocks.connections, fastest)
  // Other load on the machine only adds time to starting a program, so the faster half is closer to the true value.
  const faster = [...changes].sort((a, b) => a.ms - b.ms).slice(0, changes.length / 2)
  return {
    services,
    ...held.counts,
    programMs: rounded(program.ms),
    programCpuMs: rounded(program.cpuMs),
    changeMs: faster.map(({ ms }) => rounded(ms)),
    changeCpuMs: faster.map(({ cpuMs }) => rounded(cpuMs)),
    newMicros: requests.map(({ newNs }) => micros(newNs)),
    newMoreMicros: requests.map(({ newMoreNs }) => micros(newMoreNs)),
    keptMicros: requests.map(({ keptNs }) => micros(keptNs)),
    keptMoreMicros: requests.map(({ keptMoreNs }) => micros(keptMoreNs)),
    workMicros: requests.map(({ work }) => micros(work)),
    busy: connections.map(({ lastNs }) => coreShare(lastNs)),
    busyMore: connections.map(({ lastMoreNs }) => coreShare(lastMoreNs)),
  }
}

/** The medians of a block of requests, in nanoseconds. */
interface RequestBlock extends TimedBlock {
  newNs: number
  newMoreNs: number
  keptNs: number
  keptMoreNs: number
}

export async function measureRequests(
  node: MeasuringNode,
  addresses: readonly string[],
  blocks: number,
): Promise<RequestBlock[]> {
  const lines = await node.ask(requestTimes, [blocks, REQUESTS_A_BLOCK, 80, ...addresses])
  return lines.map(([newNs = NaN, newMoreNs = NaN, keptNs = NaN, keptMoreNs = NaN, work = NaN]) => {
    // The sum of both requests of a round: one of them would select blocks by the difference that is measured.
    return { newNs, newMoreNs, keptNs, keptMoreNs, work, totalNs: 2 * newNs - newMoreNs }
  })
}

/** The time that the node was busy with a new connection at the fixed rate, in nanoseconds. */
interface ConnectionBlock extends TimedBlock {
  lastNs: number
  lastMoreNs: number
}

async function measureConnections(
  node: MeasuringNode,
  addresses: readonly string[],
  blocks: number,
): Promise<ConnectionBlock[]> {
  const lines = await node.ask(connectAtRate, [blocks, CONNECTIONS_A_BLOCK, RATE, 80, ...addresses])
  return lines.map(([lastNs = NaN, lastMoreNs = NaN, work = NaN]) => ({
    lastNs,
    lastMoreNs,
    work,
    totalNs: 2 * lastNs - lastMoreNs,
  }))
}

/** Applies and reverts changes in pairs, so that the node's state is the same afterwards. */
export async function measureChanges(mode: ProgrammedMode, pairs: number): Promise<Cost[]> {
  const taken: Cost[] = []
  while (taken.length < 2 * pairs) taken.push(await mode.change(), await mode.change())
  return taken
}

const rounded = (value: number) => Math.round(value * 10) / 10
const micros = (nanos: number) => rounded(nanos / 1000)
/** Converts nanoseconds per connection to the busy share at the fixed rate. */
const coreShare = (nanos: number) => Math.round((nanos / 1e9) * RATE * 1e5) / 1e5
