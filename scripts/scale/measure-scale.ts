import type { Measurement, Point } from '../../checks/06-scale/measurement.ts'
import type { Progress } from '../../cluster/driver.ts'
import { syntheticClusterIP } from '../bench/synthetic-cluster.ts'
import type { MeasuringNode } from './measuring-node.ts'
import { busyAtRate, requestTimes } from './node-programs.ts'
import { iptablesMode, ipvsMode, type ProgrammedMode } from './programmed-mode.ts'

export interface ScaleOptions {
  sizes: readonly number[]
  endpoints: number
  machine: string
}

/** New connections a second while the CPU is looked at. */
const RATE = 200
const BLOCKS = 7
const REQUESTS_A_BLOCK = 24
const RATE_ROUNDS = 3
const RATE_SECONDS = 0.25
/** A change is repeated until this time is used up, at least so often and at most so often. */
const CHANGE_MS = 600
const FEWEST_CHANGES = 4
const MOST_CHANGES = 10

/**
 * Measures both modes on one node, iptables first, at every size in growing order.
 * @throws Error when the last Service does not answer, or a program of the node refuses its input
 */
export async function measureScale(
  node: MeasuringNode,
  { sizes, endpoints, machine }: ScaleOptions,
  progress: Progress,
): Promise<Measurement> {
  const began = performance.now()
  const run = async (mode: ProgrammedMode, label: string): Promise<Point[]> => {
    const points: Point[] = []
    for (const services of sizes) {
      progress.start(`${label}, ${services} Services`)
      const point = await measurePoint(node, mode, services)
      points.push(point)
      progress.end(true, `${point.rules} rules, ${point.virtualServers} virtual servers`)
    }
    return points
  }
  const iptables = await run(iptablesMode(node, endpoints), 'iptables mode')
  const ipvs = await run(ipvsMode(node, endpoints), 'IPVS mode')
  const seconds = Math.round((performance.now() - began) / 100) / 10
  return { at: new Date().toISOString(), machine, endpoints, rate: RATE, seconds, iptables, ipvs }
}

async function measurePoint(node: MeasuringNode, mode: ProgrammedMode, services: number): Promise<Point> {
  const program = await mode.program(services)
  const counts = await node.counts()
  const address = syntheticClusterIP(services - 1)
  const requests = await node.ask(requestTimes, [address, 80, BLOCKS, REQUESTS_A_BLOCK])
  const busy = await node.ask(busyAtRate, [address, 80, RATE, RATE_SECONDS, RATE_ROUNDS])
  const micros = (column: number) => requests.map((line) => rounded((line[column] ?? Number.NaN) / 1000))
  return {
    services,
    ...counts,
    programMs: rounded(program.ms),
    programCpuMs: rounded(program.cpuMs),
    changeMs: await changes(mode),
    newMicros: micros(0),
    keptMicros: micros(1),
    workMicros: micros(2),
    busy: busy.map(([thousandths]) => Math.max(0, thousandths ?? Number.NaN) / 1000),
  }
}

/** An even number of changes, so that the node ends as it began. */
async function changes(mode: ProgrammedMode): Promise<number[]> {
  const taken: number[] = []
  const deadline = performance.now() + CHANGE_MS
  while (taken.length < FEWEST_CHANGES || (performance.now() < deadline && taken.length < MOST_CHANGES))
    for (let turn = 0; turn < 2; turn++) taken.push(rounded((await mode.change()).ms))
  return taken
}

const rounded = (value: number) => Math.round(value * 10) / 10
