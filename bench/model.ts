import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MeasuringNode } from '../course/scale/measuring-node.ts'
import { syntheticCluster } from '../course/scale/synthetic-cluster.ts'
import { compareNodeState } from '../dataplane/compare.ts'
import { printIptablesSave } from '../dataplane/iptables-save.ts'
import { defaultConfig } from '../dataplane/kube-proxy/config.ts'
import { readObjects } from '../dataplane/objects.ts'
import { predict } from '../dataplane/predict.ts'
import { projectRoot, START } from '../host/layout.ts'
import { createProgress } from '../host/progress.ts'
import { readRecording } from '../slides/build/recording.ts'
import { OBJECTS, predictLarge, RULES, type SizeFigures } from './model-size.ts'

const ENDPOINTS_EACH = 10
const SIZES = [100, 1000, 10_000]

/**
 * Prints how many recordings of genuine kube-proxies equal the prediction, including the order:
 * those in folders (version/mode/scenario), not the archives of later versions.
 */
export async function countEqualRecordings(): Promise<void> {
  const root = join(projectRoot, 'data/recordings')
  const config = { ...defaultConfig(), clusterCIDR: '10.244.0.0/16' }
  const versions = readdirSync(root, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() && entry.name.startsWith('v') ? entry.name : [],
  )
  const results = versions.flatMap((version) =>
    (['iptables', 'ipvs'] as const).flatMap((mode) =>
      readdirSync(join(root, version, mode)).map((scenario) => {
        const { node, state, objects } = readRecording(`${version}/${mode}/${scenario}`)
        const predicted = predict(objects, { node, mode, version, config })
        return compareNodeState(predicted, state, { mode, untouched: true }).length === 0
      }),
    ),
  )
  console.log(
    `Genuine recordings that equal the prediction: ${results.filter((isEqual) => isEqual).length} of ${results.length}.`,
  )
}

const cell = (value: string | number) => String(value).padStart(12)
const milliseconds = (ms: number) => cell(`${ms.toFixed(ms < 10 ? 1 : 0)} ms`)

/**
 * Prints a row for each size, and how long iptables-restore takes in the embedded kernel to read
 * the rules of the largest.
 */
export async function measureModel(): Promise<void> {
  console.log(
    `Services with ${ENDPOINTS_EACH} endpoints each, iptables mode, best of three; memory is the most that a process has needed after all three once:`,
  )
  console.log(
    ['Services', 'lines', 'predict', 'parse', 'compare', 'per Service', 'memory']
      .map(cell)
      .join(''),
  )
  const folder = mkdtempSync(join(tmpdir(), 'bench-'))
  const node = await MeasuringNode.boot('uml', 'bench', 2048, createProgress())
  try {
    for (const services of SIZES) printSize(services, folder)
    const largest = readFileSync(join(folder, RULES), 'utf8')
    const { ms } = await node.feed('iptables-restore --test', largest)
    console.log(`iptables-restore --test on the largest: ${(ms / 1000).toFixed(1)} s.`)
  } finally {
    await node.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * Writes a cluster's objects and rules into the folder, and prints what a process of its own
 * measures with them.
 */
function printSize(services: number, folder: string): void {
  const cluster = syntheticCluster(services, ENDPOINTS_EACH)
  const text = printIptablesSave(predictLarge(readObjects(cluster).objects).iptables)
  writeFileSync(join(folder, OBJECTS), JSON.stringify(cluster))
  writeFileSync(join(folder, RULES), text)
  const start = [START, 'scripts/bench.ts', 'size', folder]
  const { predictMs, parseMs, compareMs, megabytes }: SizeFigures = JSON.parse(
    execFileSync(process.execPath, start, { encoding: 'utf8' }),
  )
  const totalMs = predictMs + parseMs + compareMs
  const times = [predictMs, parseMs, compareMs].map(milliseconds).join('')
  const each = cell(`${((totalMs / services) * 1000).toFixed(0)} µs`)
  const memory = cell(`${megabytes.toFixed(0)} MB`)
  console.log(`${cell(services)}${cell(text.split('\n').length)}${times}${each}${memory}`)
}
