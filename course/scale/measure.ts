import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'
import { join } from 'node:path'
import type { Cluster } from '../../cluster/driver.ts'
import type { KubeClient } from '../../cluster/kube-client.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { evidenceFolder } from '../../grading/grader.ts'
import { writeNotes } from '../../grading/lab-notes.ts'
import { clusterFolder, projectRoot } from '../../host/layout.ts'
import { oneAtATime } from '../../host/one-at-a-time.ts'
import type { Progress } from '../../host/progress.ts'
import { MEASUREMENT, type Measurement, type Point } from './measurement.ts'
import { type Cost, connectAtRate, type Inventory, MeasuringNode, requestTimes } from './measuring-node.ts'
import { type Effort, planScale, type ScalePlan } from './plan.ts'
import { ProgrammedMode } from './programmed-mode.ts'
import { measurementTable, scalePlot, scaleRemarks } from './results.ts'
import { syntheticClusterIP } from './synthetic-cluster.ts'

const LAB = 6
/** For more Services than this, the node's state is too large to be stored and read. */
const KEPT_UP_TO = 1000
/** New connections per second while CPU use is measured. */
const RATE = 500
/** Requests per block, and connections to each Service per block; the medians of a block are one value. */
const EACH_BLOCK = 40

/** The node's state in each mode at the largest size that is kept, as printed by its tools. */
type KeptStates = Map<SwitchedMode, Inventory['printed']>

/**
 * `make measure`: measures with MAX and ENDPOINTS from the environment, in a separate kernel, and stores the run as a note in
 * the cluster and as a table, JSON and a diagram in the evidence folder. Returns the folder and the run.
 * @throws UserError for an invalid number; Unsupported if the embedded kernel can't run
 */
export async function measureHere(
  cluster: Pick<Cluster, 'name'>,
  client: KubeClient,
  progress: Progress,
  { env = process.env, effort }: { env?: Readonly<Record<string, string | undefined>>; effort?: Effort } = {},
): Promise<{ folder: string; run: Measurement }> {
  const plan = planScale(env, effort)
  const each = `${plan.endpoints} ${plan.endpoints === 1 ? 'endpoint' : 'endpoints'} each`
  const minutes = Math.ceil(plan.estimateSeconds / 60)
  const time = `${minutes} ${minutes === 1 ? 'minute' : 'minutes'}`
  progress.note(
    `Measuring ${plan.sizes.join(', ')} Services with ${each} in both modes: about ${time} on an idle machine.`,
  )
  // A kubeconfig context may have characters in its name that are invalid in the name of a kernel.
  const kernel = `measuring-${cluster.name.replace(/[^a-z0-9.-]/g, '-').slice(0, 40)}`
  const states: KeptStates = new Map()
  const measure = async (): Promise<Measurement> => {
    const node = await MeasuringNode.boot(kernel, plan.memoryMegabytes, progress)
    try {
      return await measureModes(node, plan, states, progress)
    } finally {
      await node.stop()
    }
  }
  // Two concurrent measurements would slow each other down.
  const run = await oneAtATime(clusterFolder('measuring.lock'), measure, { doing: 'measures', progress })
  await writeNotes(client, LAB, { [MEASUREMENT]: JSON.stringify(run) })
  return { folder: keepFiles(cluster.name, run, states), run }
}

function keepFiles(name: string, run: Measurement, states: KeptStates): string {
  const folder = evidenceFolder(LAB, name)
  const path = join(projectRoot, folder)
  mkdirSync(path, { recursive: true })
  const remarks = scaleRemarks(run)
  writeFileSync(join(path, 'scale.json'), `${JSON.stringify(run, undefined, 1)}\n`)
  writeFileSync(join(path, 'scale.txt'), `${[...measurementTable(run), '', ...remarks].join('\n')}\n`)
  writeFileSync(join(path, 'scale.svg'), scalePlot(run, remarks))
  for (const [mode, printed] of states) {
    mkdirSync(join(path, `${mode}-mode`), { recursive: true })
    for (const [file, text] of Object.entries(printed)) if (text) writeFileSync(join(path, `${mode}-mode`, file), text)
  }
  return folder
}

function thisMachine(): string {
  const [cpu] = cpus()
  const memory = Math.round(totalmem() / 1024 ** 3)
  return `${cpus().length} × ${cpu?.model ?? 'CPU'}, ${memory} GB, Linux ${release()}; node: User-Mode Linux, one CPU`
}

/** The measurements of one mode at one size, from all visits. */
interface SizeSamples {
  services: number
  held: Inventory
  program: Cost
  requests: RequestBlock[]
  connections: ConnectionBlock[]
  changes: Cost[]
}

async function measureModes(
  node: MeasuringNode,
  { sizes, endpoints, effort }: ScalePlan,
  states: KeptStates,
  progress: Progress,
): Promise<Measurement> {
  const began = performance.now()
  const samples: Record<SwitchedMode, SizeSamples[]> = { iptables: [], ipvs: [] }
  for (const mode of ['iptables', 'ipvs'] as const) {
    const visits = mode === 'iptables' ? effort.visits : 1
    const programmed = new ProgrammedMode(node, mode, endpoints)
    for (const visit of Array(visits).keys())
      for (const services of sizes) {
        const again = visits > 1 ? `, ${visit + 1} of ${visits}` : ''
        progress.start(`${mode === 'ipvs' ? 'IPVS' : mode} mode, ${services} Services${again}`)
        const program = await programmed.program(services)
        let sample = samples[mode].find((one) => one.services === services)
        if (!sample) {
          const held = await node.inventory()
          if (services <= KEPT_UP_TO) states.set(mode, held.printed)
          sample = { services, held, program, requests: [], connections: [], changes: [] }
          samples[mode].push(sample)
        }
        const addresses = [0, services - 1].map(syntheticClusterIP)
        const share = (count: number) => Math.ceil(count / visits)
        sample.requests.push(...(await measureRequests(node, addresses, share(effort.rounds))))
        sample.connections.push(...(await measureConnections(node, addresses, share(effort.blocks))))
        // In pairs, so that the node's state is the same afterwards.
        for (let change = 0; change < 2 * share(effort.changes); change++)
          sample.changes.push(await programmed.change())
        const { rules, virtualServers } = sample.held.counts
        progress.end(true, `${rules} rules, ${virtualServers} virtual servers`)
      }
  }
  const blocks = [...samples.iptables, ...samples.ipvs].flatMap((one) => [...one.requests, ...one.connections])
  const fastest = Math.min(...blocks.map(({ work }) => work))
  return {
    at: new Date().toISOString(),
    machine: thisMachine(),
    endpoints,
    rate: RATE,
    seconds: rounded((performance.now() - began) / 1000),
    iptables: samples.iptables.map((one) => pointOf(one, fastest)),
    ipvs: samples.ipvs.map((one) => pointOf(one, fastest)),
  }
}

function pointOf({ services, held, program, changes, ...blocks }: SizeSamples, fastest: number): Point {
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

const rounded = (value: number) => Math.round(value * 10) / 10
const micros = (nanos: number) => rounded(nanos / 1000)
const coreShare = (nanos: number) => Math.round((nanos / 1e9) * RATE * 1e5) / 1e5

/** A block of measurements, and the speed of the machine during it. */
interface TimedBlock {
  /** Duration of a fixed piece of work, which is the same in the whole run. */
  work: number
  /** The sum for the first and the last Service: one of them would select blocks by the difference that is measured. */
  totalNs: number
}

/** The medians of a block of requests, in nanoseconds. */
interface RequestBlock extends TimedBlock {
  newNs: number
  newMoreNs: number
  keptNs: number
  keptMoreNs: number
}

async function measureRequests(node: MeasuringNode, addresses: string[], blocks: number): Promise<RequestBlock[]> {
  const lines = await node.ask(requestTimes, [blocks, EACH_BLOCK, 80, ...addresses])
  return lines.map(([newNs = NaN, newMoreNs = NaN, keptNs = NaN, keptMoreNs = NaN, work = NaN]) => {
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
  addresses: string[],
  blocks: number,
): Promise<ConnectionBlock[]> {
  const lines = await node.ask(connectAtRate, [blocks, EACH_BLOCK, RATE, 80, ...addresses])
  return lines.map(([lastNs = NaN, lastMoreNs = NaN, work = NaN]) => {
    return { lastNs, lastMoreNs, work, totalNs: 2 * lastNs - lastMoreNs }
  })
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
