import type { MeasuredMode, Measurement, Point } from '../../checks/06-scale/measurement.ts'
import type { Counts } from '../../checks/06-scale/scene.ts'
import { syntheticClusterIP } from '../../checks/06-scale/synthetic-cluster.ts'
import type { Progress } from '../../cluster/driver.ts'
import { cpuNanos } from './kernel-cpu.ts'
import type { Cost, Inventory, MeasuringNode } from './measuring-node.ts'
import { connectAtRate, requestTimes } from './node-programs.ts'
import { iptablesMode, ipvsMode, type ProgrammedMode } from './programmed-mode.ts'

export interface ScaleOptions {
  sizes: readonly number[]
  endpoints: number
  machine: string
  /** Is shown what the node holds in each mode at each size. */
  look?: (mode: MeasuredMode, services: number, held: Inventory) => void
}

/** New connections a second while the CPU is looked at, and how many of them make a round. */
const RATE = 400
const ROUND = 40
const ROUNDS = 15
/** Rounds of requests, in blocks of which each gives one value. */
const BLOCKS = 15
const REQUESTS_A_BLOCK = 40
/** A change is repeated until this time is used up, at least so often and at most so often. */
const CHANGE_MS = 800
const FEWEST_CHANGES = 6
const MOST_CHANGES = 12

/**
 * Measures both modes on one node, iptables first, at every size in growing order.
 * @throws Error when the last Service does not answer, or a program of the node refuses its input
 */
export async function measureScale(
  node: MeasuringNode,
  { sizes, endpoints, machine, look }: ScaleOptions,
  progress: Progress,
): Promise<Measurement> {
  const began = performance.now()
  const run = async (name: MeasuredMode, mode: ProgrammedMode): Promise<Point[]> => {
    const points: Point[] = []
    for (const services of sizes) {
      progress.start(`${name === 'ipvs' ? 'IPVS' : name} mode, ${services} Services`)
      const program = await mode.program(services)
      const held = await node.inventory()
      look?.(name, services, held)
      points.push({ services, ...held.counts, ...(await measurePoint(node, mode, services, program)) })
      progress.end(true, `${held.counts.rules} rules, ${held.counts.virtualServers} virtual servers`)
    }
    return points
  }
  const iptables = await run('iptables', iptablesMode(node, endpoints))
  const ipvs = await run('ipvs', ipvsMode(node, endpoints))
  const seconds = Math.round((performance.now() - began) / 100) / 10
  return { at: new Date().toISOString(), machine, endpoints, rate: RATE, seconds, iptables, ipvs }
}

async function measurePoint(
  node: MeasuringNode,
  mode: ProgrammedMode,
  services: number,
  program: Cost,
): Promise<Omit<Point, 'services' | keyof Counts>> {
  const addresses = [0, services - 1].map(syntheticClusterIP)
  return {
    programMs: rounded(program.ms),
    programCpuMs: rounded(program.cpuMs),
    ...(await requests(node, addresses)),
    ...(await busyAtRate(node, addresses)),
    ...(await changes(mode)),
  }
}

type Requests = Pick<Point, 'newMicros' | 'newMoreMicros' | 'keptMicros' | 'keptMoreMicros' | 'workMicros'>

async function requests(node: MeasuringNode, addresses: readonly string[]): Promise<Requests> {
  const blocks = await node.ask(requestTimes, [BLOCKS, REQUESTS_A_BLOCK, 80, ...addresses])
  const micros = (column: number) => blocks.map((line) => rounded((line[column] ?? Number.NaN) / 1000))
  return {
    newMicros: micros(0),
    newMoreMicros: micros(1),
    keptMicros: micros(2),
    keptMoreMicros: micros(3),
    workMicros: micros(4),
  }
}

/** What the host's processors spend on the node while it opens connections, for each of the two addresses in turn. */
async function busyAtRate(
  node: MeasuringNode,
  addresses: readonly string[],
): Promise<Pick<Point, 'busy' | 'busyMore'>> {
  const processes = node.processes()
  const parts: number[] = []
  let before = 0
  await node.follow(connectAtRate, [RATE, ROUND, ROUNDS, 80, ...addresses], (line) => {
    const now = cpuNanos(processes)
    if (line === 'begin') before = now
    else parts.push(((now - before) / 1e9 / ROUND) * RATE)
  })
  const [first, last] = [0, 1].map((place) => parts.filter((_, index) => index % 2 === place)) as [number[], number[]]
  const fine = (value: number) => Math.round(value * 1e5) / 1e5
  return { busy: last.map(fine), busyMore: last.map((part, round) => fine(part - (first[round] ?? Number.NaN))) }
}

/** An even number of changes, so that the node ends as it began. */
async function changes(mode: ProgrammedMode): Promise<Pick<Point, 'changeMs' | 'changeCpuMs'>> {
  const taken: Pick<Point, 'changeMs' | 'changeCpuMs'> = { changeMs: [], changeCpuMs: [] }
  const deadline = performance.now() + CHANGE_MS
  const { changeMs, changeCpuMs } = taken
  while (changeMs.length < FEWEST_CHANGES || (performance.now() < deadline && changeMs.length < MOST_CHANGES))
    for (let turn = 0; turn < 2; turn++) {
      const { ms, cpuMs } = await mode.change()
      changeMs.push(rounded(ms))
      changeCpuMs.push(rounded(cpuMs))
    }
  return taken
}

const rounded = (value: number) => Math.round(value * 10) / 10
