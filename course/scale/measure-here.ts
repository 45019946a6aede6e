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
import { measureScale, type ScaleOptions } from './measure-scale.ts'
import { MEASUREMENT, type Measurement } from './measurement.ts'
import { type Inventory, MeasuringNode } from './measuring-node.ts'
import { type Effort, formatSeconds, planScale } from './plan.ts'
import { scalePlot } from './plot.ts'
import { measurementTable, scaleRemarks } from './table.ts'

const LAB = 6
/** For more Services than this, the node's state is too large to be stored and read. */
const KEPT_UP_TO = 1000

export interface MeasureOptions {
  env?: Readonly<Record<string, string | undefined>>
  /** Default: chosen by the sizes. */
  effort?: Effort
}

/** A one-line description of the machine. */
function thisMachine(): string {
  const [cpu] = cpus()
  const memory = Math.round(totalmem() / 1024 ** 3)
  return `${cpus().length} × ${cpu?.model ?? 'CPU'}, ${memory} GB, Linux ${release()}; node: User-Mode Linux, one CPU`
}

/**
 * `make measure`: measures with MAX and ENDPOINTS from the environment, in a separate kernel, and stores the run as a note in
 * the cluster and as a table, JSON and a diagram in the evidence folder. Returns the folder and the run.
 * @throws UserError for an invalid number; Unsupported if the embedded kernel can't run
 */
export async function measureHere(
  cluster: Pick<Cluster, 'name'>,
  client: KubeClient,
  progress: Progress,
  { env = process.env, effort }: MeasureOptions = {},
): Promise<{ folder: string; run: Measurement }> {
  const plan = planScale(env, effort)
  const { sizes, endpoints, memoryMegabytes, estimateSeconds } = plan
  const each = `${endpoints} ${endpoints === 1 ? 'endpoint' : 'endpoints'} each`
  const time = formatSeconds(estimateSeconds)
  progress.note(`Measuring ${sizes.join(', ')} Services with ${each} in both modes: about ${time} on an idle machine.`)
  const kept = new Map<SwitchedMode, Inventory['printed']>()
  const look: ScaleOptions['look'] = (mode, services, { printed }) => {
    if (services <= KEPT_UP_TO) kept.set(mode, printed)
  }
  const measure = async (): Promise<Measurement> => {
    const node = await MeasuringNode.boot(kernelName(cluster), memoryMegabytes, progress)
    try {
      return await measureScale(node, { plan, machine: thisMachine(), look }, progress)
    } finally {
      await node.stop()
    }
  }
  // Two concurrent measurements would slow each other down.
  const run = await oneAtATime(clusterFolder('measuring.lock'), measure, { doing: 'measures', progress })
  await writeNotes(client, LAB, { [MEASUREMENT]: JSON.stringify(run) })
  return { folder: keepFiles(cluster.name, run, kept), run }
}

/** A kubeconfig context may have characters in its name that are invalid in the name of a kernel. */
const kernelName = ({ name }: Pick<Cluster, 'name'>) => `measuring-${name.replace(/[^a-z0-9.-]/g, '-').slice(0, 40)}`

function keepFiles(name: string, run: Measurement, kept: ReadonlyMap<SwitchedMode, Inventory['printed']>): string {
  const folder = evidenceFolder(LAB, name)
  const path = join(projectRoot, folder)
  mkdirSync(path, { recursive: true })
  const remarks = scaleRemarks(run)
  writeFileSync(join(path, 'scale.json'), `${JSON.stringify(run, undefined, 1)}\n`)
  writeFileSync(join(path, 'scale.txt'), `${[...measurementTable(run), '', ...remarks].join('\n')}\n`)
  writeFileSync(join(path, 'scale.svg'), scalePlot(run, remarks))
  for (const [mode, printed] of kept) {
    mkdirSync(join(path, `${mode}-mode`), { recursive: true })
    for (const [file, text] of Object.entries(printed)) if (text) writeFileSync(join(path, `${mode}-mode`, file), text)
  }
  return folder
}
