// `make bench`: the cost of the model, the parsers and the embedded cluster, as ratios measured in one run.
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { compareKernels, compareModes, measureCluster } from '../bench/live-cluster.ts'
import { countEqualRecordings } from '../bench/recordings.ts'
import { syntheticCluster } from '../course/scale/synthetic-cluster.ts'
import { compareNodeState } from '../dataplane/compare.ts'
import { parseIptablesSave, printIptablesSave } from '../dataplane/iptables-save.ts'
import { readObjects } from '../dataplane/objects.ts'
import { predict } from '../dataplane/predict.ts'
import { ensurePackages, hostKernelTrouble, KERNELS, startMachine } from '../embedded/index.ts'
import { cacheFolder, clusterFolder } from '../host/layout.ts'
import { main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

const endpointsEach = 10
const sizes = [100, 1000, 10_000]

/** The shortest of three runs, in milliseconds, with the last result; only one result is in memory at a time. */
function best<T>(work: () => T): { ms: number; result: T } {
  const run = (): { ms: number; result: T } => {
    const began = performance.now()
    const result = work()
    return { ms: performance.now() - began, result }
  }
  const first = run().ms
  const second = run().ms
  const last = run()
  return { ms: Math.min(first, second, last.ms), result: last.result }
}

const cell = (value: string | number) => String(value).padStart(12)
const milliseconds = (ms: number) => cell(`${ms.toFixed(ms < 10 ? 1 : 0)} ms`)

/** One row for one size; returns what the comparison with iptables-restore needs. */
function measureModel(services: number): { text: string; totalMs: number } {
  const options = { node: 'k8s-guide-worker', mode: 'iptables', version: 'v1.34' } as const
  const { objects } = readObjects(syntheticCluster(services, endpointsEach))
  const prediction = best(() => predict(objects, options))
  const text = printIptablesSave(prediction.result.iptables)
  const parsed = best(() => parseIptablesSave(text))
  const compared = best(() =>
    compareNodeState(prediction.result, { ...prediction.result, iptables: parsed.result }, { mode: 'iptables' }),
  )
  if (compared.result.length > 0) throw new Error(`the prediction of ${services} Services differs from itself`)
  const lines = text.split('\n').length
  const totalMs = prediction.ms + parsed.ms + compared.ms
  const times = [prediction.ms, parsed.ms, compared.ms].map(milliseconds).join('')
  const each = cell(`${((totalMs / services) * 1000).toFixed(0)} µs`)
  const memory = cell(`${(process.memoryUsage().rss / 1024 ** 2).toFixed(0)} MB`)
  console.log(`${cell(services)}${cell(lines)}${times}${each}${memory}`)
  return { text, totalMs }
}

/** Seconds that iptables-restore takes in the embedded kernel to read the same rules without loading them. */
async function measureRestore(text: string): Promise<number> {
  const progress = createProgress()
  const directory = join(clusterFolder('bench'), 'uml')
  const packages = await ensurePackages(cacheFolder, progress)
  progress.start('Reading the same rules with iptables-restore --test in the embedded kernel')
  const machine = await startMachine({ packages, directory, name: 'bench', memoryMegabytes: 2048 })
  try {
    const file = join(directory, 'rules')
    writeFileSync(file, text)
    await machine.run([
      'modprobe',
      '-a',
      'iptable_nat',
      'iptable_filter',
      'iptable_mangle',
      'xt_comment',
      'xt_statistic',
    ])
    const began = performance.now()
    const { exitCode, stderr } = await machine.run(['sh', '-c', 'iptables-restore --test <"$0"', file])
    if (exitCode !== 0) throw new Error(`iptables-restore refused the prediction: ${stderr}`)
    return performance.now() - began
  } finally {
    await machine.stop()
    rmSync(clusterFolder('bench'), { recursive: true, force: true })
    progress.end(true)
  }
}

await main(async () => {
  const { equal, total } = countEqualRecordings()
  console.log(`Genuine recordings that equal the prediction: ${equal} of ${total}.`)
  console.log(`Services with ${endpointsEach} endpoints each, iptables mode, best of three:`)
  console.log(['Services', 'lines', 'predict', 'parse', 'compare', 'per Service', 'memory'].map(cell).join(''))
  let last = { text: '', totalMs: 0 }
  for (const services of sizes) last = measureModel(services)
  const restoreMs = await measureRestore(last.text)
  console.log(
    `iptables-restore --test on the largest: ${(restoreMs / 1000).toFixed(1)} s, ` +
      `${(restoreMs / last.totalMs).toFixed(1)} times as long as predict, parse and compare together.`,
  )
  const trouble = hostKernelTrouble()
  if (trouble) console.log(`KERNEL=host is not measured: ${trouble.detail}.`)
  const kernels = KERNELS.filter((kernel) => kernel === 'uml' || !trouble)
  for (const kernel of kernels) await measureCluster(kernel, createProgress())
  await compareKernels(kernels, createProgress())
  await compareModes(kernels, createProgress())
})
