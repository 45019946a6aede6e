import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'
import { join } from 'node:path'
import type { Cluster } from '../../cluster/driver.ts'
import type { KubeClient } from '../../cluster/kube-client.ts'
import { takeObjects } from '../../cluster/snapshot.ts'
import { type KernelName, Unsupported } from '../../embedded/index.ts'
import { evidenceFolder } from '../../grading/grader.ts'
import { LabNotes, writeNotes } from '../../grading/lab-notes.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { clusterFolder, projectRoot } from '../../host/layout.ts'
import { oneAtATime } from '../../host/one-at-a-time.ts'
import type { Progress } from '../../host/progress.ts'
import {
  HOST_CURVES,
  HOST_MEASUREMENT,
  HOST_TROUBLE,
  type HostCurve,
  type HostMeasurement,
  hostMeasurement,
  MEASUREMENT,
  type Measurement,
  measurement,
  type Point,
} from './measurement.ts'
import { type Cost, type Inventory, type MeasuredCurve, MeasuringNode } from './measuring-node.ts'
import { type MeasurementEffort, planHostScale, planScale, type ScalePlan } from './plan.ts'
import { ProgrammedMode } from './programmed-mode.ts'
import { curveTitle, measurementTable, scalePlot, scaleRemarks } from './results.ts'
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

/** The node's state of each curve at the largest size that is kept, as printed by its tools. */
type KeptStates = Partial<Record<MeasuredCurve, Inventory['printed']>>

interface MeasureOptions {
  env?: Readonly<Record<string, string | undefined>>
  effort?: MeasurementEffort
}

/**
 * `make measure`: measures both modes with MAX and ENDPOINTS from the environment, in a separate
 * kernel, and stores the run as a note in the cluster and as a table, JSON and a diagram in the
 * evidence folder. Returns the folder and the run.
 * @throws Refusal for an invalid number; Unsupported if the embedded kernel can't run
 */
export async function measureHere(
  cluster: Pick<Cluster, 'name'>,
  client: KubeClient,
  progress: Progress,
  { env = process.env, effort }: MeasureOptions = {},
): Promise<{ folder: string; run: Measurement }> {
  const plan = planScale(env, effort)
  progress.note(announced(plan, 'in both modes', plan.estimateSeconds))
  const began = performance.now()
  const samples = await alone(progress, () =>
    withNode(
      () => bootFor(cluster, 'uml', plan, progress),
      async (node) => ({
        iptables: await measureCurve(node, 'iptables', plan.effort.visits, plan, progress),
        ipvs: await measureCurve(node, 'ipvs', 1, plan, progress),
      }),
    ),
  )
  const [iptables = [], ipvs = []] = curvePoints([samples.iptables, samples.ipvs])
  const machine = `${thisMachine()}; node: User-Mode Linux, one CPU`
  const run = { ...aboutRun(plan, machine, began), iptables, ipvs }
  await writeNotes(client, LAB, { [MEASUREMENT]: JSON.stringify(run) })
  const states = { iptables: keptState(samples.iptables), ipvs: keptState(samples.ipvs) }
  return { folder: keepFiles(cluster.name, 'scale', run, states), run }
}

/**
 * `make measure NFT=1`: the same for what only this machine's own kernel can do, nftables mode and
 * iptables-nft, beside iptables-legacy where it has that. Each curve has a node of its own.
 * @throws Refusal for an invalid number; Unsupported if the kernel can't have such a node, or has
 * no NAT for nft
 */
export async function measureOnHost(
  cluster: Pick<Cluster, 'name'>,
  client: KubeClient,
  progress: Progress,
  { env = process.env, effort }: MeasureOptions = {},
): Promise<{ folder: string; run: HostMeasurement }> {
  const plan = planHostScale(env, effort)
  progress.note(announced(plan, "on this machine's own kernel", plan.estimateSeconds))
  const began = performance.now()
  const samples = new Map<HostCurve, SizeSamples[]>()
  const boot = () => bootFor(cluster, 'host', plan, progress)
  await alone(progress, async () => {
    const possible = await possibleCurves(boot, progress).catch(async (error: unknown) => {
      if (error instanceof Unsupported)
        await writeNotes(client, LAB, { [HOST_TROUBLE]: JSON.stringify(error.message) })
      throw error
    })
    for (const curve of possible)
      samples.set(
        curve,
        await withNode(boot, (node) =>
          measureCurve(node, curve, plan.effort.visits, plan, progress),
        ),
      )
  })
  const points = curvePoints([...samples.values()])
  const run: HostMeasurement = {
    ...aboutRun(plan, `${thisMachine()}; node: namespaces of this kernel, one CPU`, began),
    curves: [...samples.keys()].map((curve, index) => ({ curve, points: points[index] ?? [] })),
  }
  await writeNotes(client, LAB, { [HOST_MEASUREMENT]: JSON.stringify(run) })
  const states = Object.fromEntries([...samples].map(([curve, one]) => [curve, keptState(one)]))
  return { folder: keepFiles(cluster.name, 'scale-nft', run, states), run }
}

/** The curves that this kernel can have. */
const possibleCurves = (boot: () => Promise<MeasuringNode>, progress: Progress) =>
  withNode(boot, async (node) => {
    const possible: HostCurve[] = []
    for (const curve of HOST_CURVES) {
      const trouble = await node.troubleWith(curve)
      if (trouble === undefined) possible.push(curve)
      else if (curve === 'nftables') throw new Unsupported(`${NO_NFT_NAT}: ${trouble}`)
      else progress.note(`${curve} is left out, because it does not work here: ${trouble}`)
    }
    return possible
  })

const NO_NFT_NAT = "This machine's own kernel has no NAT for nft, which nftables mode needs"

/** Starts a node for some work, and stops it. */
async function withNode<T>(
  boot: () => Promise<MeasuringNode>,
  work: (node: MeasuringNode) => Promise<T>,
): Promise<T> {
  const node = await boot()
  try {
    return await work(node)
  } finally {
    await node.stop()
  }
}

function announced({ sizes, endpoints }: ScalePlan, where: string, seconds: number): string {
  const each = `${endpoints} ${endpoints === 1 ? 'endpoint' : 'endpoints'} each`
  const minutes = Math.ceil(seconds / 60)
  const time = `${minutes} ${minutes === 1 ? 'minute' : 'minutes'}`
  return `Measuring ${sizes.join(', ')} Services with ${each} ${where}: about ${time} on an idle machine.`
}

/** Two concurrent measurements would slow each other down. */
const alone = <T>(progress: Progress, work: () => Promise<T>): Promise<T> =>
  oneAtATime(clusterFolder('measuring.lock'), work, { doing: 'measures', progress })

/**
 * A kubeconfig context may have characters in its name that are invalid in the name of a kernel.
 */
const bootFor = (
  { name }: Pick<Cluster, 'name'>,
  kernel: KernelName,
  { memoryMegabytes }: ScalePlan,
  progress: Progress,
): Promise<MeasuringNode> =>
  MeasuringNode.boot(
    kernel,
    `measuring-${name.replace(/[^a-z0-9.-]/g, '-').slice(0, 40)}`,
    memoryMegabytes,
    progress,
  )

/** The last run, which measureHere stored in the cluster; undefined if there is none. */
export const lastRun = async (
  cluster: Cluster,
  client: KubeClient,
): Promise<Measurement | undefined> =>
  (await notesOfLab(cluster, client)).read(MEASUREMENT, measurement)

/** The last run of measureOnHost. */
export const lastHostRun = async (
  cluster: Cluster,
  client: KubeClient,
): Promise<HostMeasurement | undefined> =>
  (await notesOfLab(cluster, client)).read(HOST_MEASUREMENT, hostMeasurement)

const notesOfLab = async (cluster: Cluster, client: KubeClient): Promise<LabNotes> =>
  new LabNotes(LAB, new Snapshot(await takeObjects(cluster, client)))

/**
 * Writes the table, JSON and diagram of a run, and the states of its curves. Returns the folder.
 */
function keepFiles(
  name: string,
  file: 'scale' | 'scale-nft',
  run: Measurement | HostMeasurement,
  states: KeptStates,
): string {
  const folder = evidenceFolder(LAB, name)
  const path = join(projectRoot, folder)
  mkdirSync(path, { recursive: true })
  const remarks = scaleRemarks(run)
  writeFileSync(join(path, `${file}.json`), `${JSON.stringify(run, undefined, 1)}\n`)
  writeFileSync(
    join(path, `${file}.txt`),
    `${[...measurementTable(run), '', ...remarks].join('\n')}\n`,
  )
  writeFileSync(join(path, `${file}.svg`), scalePlot(run, remarks))
  for (const [curve, printed] of Object.entries(states)) {
    const mode = `${curve}-mode`
    mkdirSync(join(path, mode), { recursive: true })
    for (const [tool, text] of Object.entries(printed))
      if (text) writeFileSync(join(path, mode, tool), text)
  }
  return folder
}

function thisMachine(): string {
  const [cpu] = cpus()
  const memory = Math.round(totalmem() / 1024 ** 3)
  return `${cpus().length} × ${cpu?.model ?? 'CPU'}, ${memory} GB, Linux ${release()}`
}

const aboutRun = ({ endpoints }: ScalePlan, machine: string, began: number) => ({
  at: new Date().toISOString(),
  machine,
  endpoints,
  rate: RATE,
  seconds: rounded((performance.now() - began) / 1000),
})

/** The points of each curve of one run. */
function curvePoints(curves: readonly SizeSamples[][]): Point[][] {
  const blocks = curves.flat().flatMap(({ requests, connections }) => [...requests, ...connections])
  const fastest = Math.min(...blocks.map(({ work }) => work))
  return curves.map((samples) => samples.map((one) => pointOf(one, fastest)))
}

const keptState = (samples: readonly SizeSamples[]): Inventory['printed'] =>
  samples.findLast(({ services }) => services <= KEPT_UP_TO)?.programmed.printed ?? {}

/** The measurements of one curve at one size, from all visits. */
interface SizeSamples {
  services: number
  programmed: Inventory
  program: Cost
  requests: RoundBlock[]
  connections: RoundBlock[]
  changes: Cost[]
}

/** Visits all sizes in ascending order, several times. */
async function measureCurve(
  node: MeasuringNode,
  curve: MeasuredCurve,
  visits: number,
  { sizes, endpoints, effort }: ScalePlan,
  progress: Progress,
): Promise<SizeSamples[]> {
  const programmed = new ProgrammedMode(node, curve, endpoints)
  const share = (count: number) => Math.ceil(count / visits)
  const samples: SizeSamples[] = []
  for (let visit = 1; visit <= visits; visit++)
    for (const [index, services] of sizes.entries()) {
      const again = visits > 1 ? `, ${visit} of ${visits}` : ''
      progress.start(`${curveTitle(curve)}, ${services} Services${again}`)
      const program = await programmed.program(services)
      samples[index] ??= {
        services,
        programmed: await node.inventory(curve),
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
  // Other load on the machine only adds time to starting a program, so the faster half is closer to
  // the true value.
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
