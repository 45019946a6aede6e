import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { MeasuringNode } from '../course/scale/measuring-node.ts'
import { syntheticCluster } from '../course/scale/synthetic-cluster.ts'
import { compareNodeState } from '../dataplane/compare.ts'
import { parseIptablesSave, printIptablesSave } from '../dataplane/iptables-save.ts'
import { defaultConfig } from '../dataplane/kube-proxy/config.ts'
import { readObjects } from '../dataplane/objects.ts'
import { predict } from '../dataplane/predict.ts'
import { projectRoot } from '../host/layout.ts'
import { createProgress } from '../host/progress.ts'
import { readRecording } from '../slides/build/recording.ts'

const ENDPOINTS_EACH = 10
const SIZES = [100, 1000, 10_000]

/**
 * Prints how many recordings of genuine kube-proxies equal the prediction, including the order: those in folders
 * (version/mode/scenario), not the archives of later versions.
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

/** The shortest of three runs, in milliseconds, with the last result; only one result is in memory at a time. */
function best<T>(work: () => T): { ms: number; result: T } {
  let ms = Number.POSITIVE_INFINITY
  for (let runs = 1; ; runs++) {
    const began = performance.now()
    const result = work()
    ms = Math.min(ms, performance.now() - began)
    if (runs === 3) return { ms, result }
  }
}

const cell = (value: string | number) => String(value).padStart(12)
const milliseconds = (ms: number) => cell(`${ms.toFixed(ms < 10 ? 1 : 0)} ms`)

/** Prints a row for each size, and how long iptables-restore takes in the embedded kernel to read the rules of the largest. */
export async function measureModel(): Promise<void> {
  console.log(`Services with ${ENDPOINTS_EACH} endpoints each, iptables mode, best of three:`)
  console.log(
    ['Services', 'lines', 'predict', 'parse', 'compare', 'per Service', 'memory']
      .map(cell)
      .join(''),
  )
  let largest = { text: '', totalMs: 0 }
  for (const services of SIZES) largest = measureSize(services)
  const node = await MeasuringNode.boot('uml', 'bench', 2048, createProgress())
  try {
    const { ms } = await node.feed('iptables-restore --test', largest.text)
    console.log(
      `iptables-restore --test on the largest: ${(ms / 1000).toFixed(1)} s, ` +
        `${(ms / largest.totalMs).toFixed(1)} times as long as predict, parse and compare together.`,
    )
  } finally {
    await node.stop()
  }
}

function measureSize(services: number): { text: string; totalMs: number } {
  const { objects } = readObjects(syntheticCluster(services, ENDPOINTS_EACH))
  const options = { node: 'k8s-guide-worker', mode: 'iptables', version: 'v1.34' } as const
  const prediction = best(() => predict(objects, options))
  const text = printIptablesSave(prediction.result.iptables)
  const parsed = best(() => parseIptablesSave(text))
  const compared = best(() =>
    compareNodeState(
      prediction.result,
      { ...prediction.result, iptables: parsed.result },
      { mode: 'iptables' },
    ),
  )
  if (compared.result.length > 0)
    throw new Error(`the prediction of ${services} Services differs from itself`)
  const totalMs = prediction.ms + parsed.ms + compared.ms
  const times = [prediction.ms, parsed.ms, compared.ms].map(milliseconds).join('')
  const each = cell(`${((totalMs / services) * 1000).toFixed(0)} µs`)
  const memory = cell(`${(process.memoryUsage().rss / 1024 ** 2).toFixed(0)} MB`)
  console.log(`${cell(services)}${cell(text.split('\n').length)}${times}${each}${memory}`)
  return { text, totalMs }
}
