import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'
import { join } from 'node:path'
import type { Cluster } from '../../cluster/driver.ts'
import type { KubeClient } from '../../cluster/kube-client.ts'
import { takeObjects } from '../../cluster/snapshot.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { evidenceFolder } from '../../grading/grader.ts'
import { LabNotes, writeNotes } from '../../grading/lab-notes.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { clusterFolder, projectRoot } from '../../host/layout.ts'
import { oneAtATime } from '../../host/one-at-a-time.ts'
import type { Progress } from '../../host/progress.ts'
import { MEASUREMENT, type Measurement, measurement, type Point } from './measurement.ts'
import { type Cost, type Inventory, MeasuringNode } from './measuring-node.ts'
import { type MeasurementEffort, planScale, type ScalePlan } from './plan.ts'
import { ProgrammedMode } from './programmed-mode.ts'
import { measurementTable, scalePlot, scaleRemarks } from './results.ts'
import { syntheticClusterIP } from './synthetic-cluster.ts'
import {
  RATE,
  type RoundBlock,
  selectUndisturbed,
  timeConnections,
  timeRequests,
} from './timed-requests.ts'

const LAB = 6
/** For more Services than this, the node's state is too large to be stored and read. */
const KEPT_UP_TO = 1000

/** The node's state in each mode at the largest size that is kept, as printed by its tools. */
type KeptStates = Record<SwitchedMode, Partial<Inventory['printed']>>

/**
 * `make measure`: measures with MAX and ENDPOINTS from the environment, in a separate kernel, and stores the run as a note in
 * the cluster and as a table, JSON and a diagram in the evidence folder. Returns the folder and the run.
 * @throws Refusal for an invalid number; Unsupported if the embedded kernel can't run
 */
export async function measureHere(
  cluster: Pick<Cluster, 'name'>,
  client: KubeClient,
  progress: Progress,
  {
    env = process.env,
    effort,
  }: { env?: Readonly<Record<string, string | undefined>>; effort?: MeasurementEffort } = {},
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
  const measure = async () => {
    const node = await MeasuringNode.boot(kernel, plan.memoryMegabytes, progress)
    try {
      return await measureModes(node, plan, progress)
    } finally {
      await node.stop()
    }
  }
  // Two concurrent measurements would slow each other down.
  const { run, states } = await oneAtATime(clusterFolder('measuring.lock'), measure, {
    doing: 'measures',
    progress,
  })
  await writeNotes(client, LAB, { [MEASUREMENT]: JSON.stringify(run) })
  return { folder: keepFiles(cluster.name, run, states), run }
}

/** The last run, which measureHere stored in the cluster; undefined if there is none. */
export async function lastRun(
  cluster: Cluster,
  client: KubeClient,
): Promise<Measurement | undefined> {
  return new LabNotes(LAB, new Snapshot(await takeObjects(cluster, client))).read(
    MEASUREMENT,
    measurement,
  )
}

function keepFiles(name: string, run: Measurement, states: KeptStates): string {
  const folder = evidenceFolder(LAB, name)
  const path = join(projectRoot, folder)
  mkdirSync(path, { recursive: true })
  const remarks = scaleRemarks(run)
  writeFileSync(join(path, 'scale.json'), `${JSON.stringify(run, undefined, 1)}\n`)
  writeFileSync(
    join(path, 'scale.txt'),
    `${[...measurementTable(run), '', ...remarks].join('\n')}\n`,
  )
  writeFileSync(join(path, 'scale.svg'), scalePlot(run, remarks))
  for (const [mode, printed] of Object.entries(states)) {
    mkdirSync(join(path, `${mode}-mode`), { recursive: true })
    for (const [file, text] of Object.entries(printed))
      if (text) writeFileSync(join(path, `${mode}-mode`, file), text)
  }
  return folder
}

function thisMachine(): string {
  const [cpu] = cpus()
  const memory = Math.round(totalmem() / 1024 ** 3)
  return `${cpus().length} × ${cpu?.model ?? 'CPU'}, ${memory} GB, Linux ${release()}; node: User-Mode Linux, one CPU`
}

async function measureModes(
  node: MeasuringNode,
  plan: ScalePlan,
  progress: Progress,
): Promise<{ run: Measurement; states: KeptStates }> {
  const began = performance.now()
  const iptables = await measureMode(node, 'iptables', plan.effort.visits, plan, progress)
  const ipvs = await measureMode(node, 'ipvs', 1, plan, progress)
  const blocks = [...iptables, ...ipvs].flatMap(({ requests, connections }) => [
    ...requests,
    ...connections,
  ])
  const fastest = Math.min(...blocks.map(({ work }) => work))
  const run = {
    at: new Date().toISOString(),
    machine: thisMachine(),
    endpoints: plan.endpoints,
    rate: RATE,
    seconds: rounded((performance.now() - began) / 1000),
    iptables: iptables.map((one) => pointOf(one, fastest)),
    ipvs: ipvs.map((one) => pointOf(one, fastest)),
  }
  return { run, states: { iptables: keptState(iptables), ipvs: keptState(ipvs) } }
}

const keptState = (samples: readonly SizeSamples[]): Partial<Inventory['printed']> =>
  samples.findLast(({ services }) => services <= KEPT_UP_TO)?.programmed.printed ?? {}

/** The measurements of one mode at one size, from all visits. */
interface SizeSamples {
  services: number
  programmed: Inventory
  program: Cost
  requests: RoundBlock[]
  connections: RoundBlock[]
  changes: Cost[]
}

/** Visits all sizes in ascending order, several times. */
async function measureMode(
  node: MeasuringNode,
  mode: SwitchedMode,
  visits: number,
  { sizes, endpoints, effort }: ScalePlan,
  progress: Progress,
): Promise<SizeSamples[]> {
  const programmed = new ProgrammedMode(node, mode, endpoints)
  const share = (count: number) => Math.ceil(count / visits)
  const samples: SizeSamples[] = []
  for (let visit = 1; visit <= visits; visit++)
    for (const [index, services] of sizes.entries()) {
      const again = visits > 1 ? `, ${visit} of ${visits}` : ''
      progress.start(`${mode === 'ipvs' ? 'IPVS' : mode} mode, ${services} Services${again}`)
      const program = await programmed.program(services)
      samples[index] ??= {
        services,
        programmed: await node.inventory(),
        program,
        requests: [],
        connections: [],
        changes: [],
      }
      const { requests, connections, changes } = samples[index]
      const addresses = [0, services - 1].map(syntheticClusterIP)
      requests.push(...(await timeRequests(node, addresses, share(effort.rounds))))
      connections.push(...(await timeConnections(node, addresses, share(effort.blocks))))
      // In pairs, so that the node's state is the same afterwards.
      for (let change = 0; change < 2 * share(effort.changes); change++)
        changes.push(await programmed.change())
      progress.end(true)
    }
  return samples
}

function pointOf(
  { services, programmed, program, changes, ...blocks }: SizeSamples,
  fastest: number,
): Point {
  const requests = selectUndisturbed(blocks.requests, fastest)
  const connections = selectUndisturbed(blocks.connections, fastest)
  // Other load on the machine only adds time to starting a program, so the faster half is closer to the true value.
  const faster = [...changes].sort((a, b) => a.ms - b.ms).slice(0, changes.length / 2)
  return {
    services,
    ...programmed.counts,
    programMs: rounded(program.ms),
    programCpuMs: rounded(program.cpuMs),
    changeMs: faster.map(({ ms }) => rounded(ms)),
    changeCpuMs: faster.map(({ cpuMs }) => rounded(cpuMs)),
    newMicros: requests.map(medianAt(0)).map(micros),
    newMoreMicros: requests.map(medianAt(1)).map(micros),
    keptMicros: requests.map(medianAt(2)).map(micros),
    keptMoreMicros: requests.map(medianAt(3)).map(micros),
    workMicros: requests.map(({ work }) => micros(work)),
    busy: connections.map(medianAt(0)).map(coreShare),
    busyMore: connections.map(medianAt(1)).map(coreShare),
  }
}

const medianAt =
  (index: number) =>
  ({ medians }: RoundBlock): number =>
    medians[index] ?? Number.NaN

const rounded = (value: number) => Math.round(value * 10) / 10
const micros = (nanos: number) => rounded(nanos / 1000)
const coreShare = (nanos: number) => Math.round((nanos / 1e9) * RATE * 1e5) / 1e5
