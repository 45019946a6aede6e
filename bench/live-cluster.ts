import { EmbeddedCluster } from '../cluster/embedded.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { takeCapture } from '../cluster/snapshot.ts'
import { hostKernelTrouble, KERNELS, type KernelName } from '../embedded/index.ts'
import { $ } from '../host/command.ts'
import { projectRoot } from '../host/layout.ts'
import { createProgress } from '../host/progress.ts'

/** Labs that need no IPVS, so that every kernel can play them. */
const PLAYED = [1, 3]

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return (performance.now() - began) / 1000
}

/**
 * Measures the start-up, the reading of a cluster and two labs with each kernel that can run here,
 * side by side.
 */
export async function measureClusters(): Promise<void> {
  const trouble = hostKernelTrouble()
  if (trouble) console.log(`KERNEL=host is not measured: ${trouble.detail}.`)
  const kernels = KERNELS.filter((kernel) => kernel === 'uml' || !trouble)
  for (const kernel of kernels) await measureStart(kernel)
  console.log(`From \`make lab-N\` without a cluster to its score:`)
  console.log(
    ['', ...kernels.map((kernel) => `KERNEL=${kernel}`)].map((text) => text.padStart(12)).join(''),
  )
  for (const lab of PLAYED) {
    const row = [`lab ${lab}`]
    for (const kernel of kernels) row.push(await playLab(lab, kernel))
    console.log(row.map((text) => text.padStart(12)).join(''))
  }
}

async function measureStart(kernel: KernelName): Promise<void> {
  const cluster = new EmbeddedCluster('bench')
  const progress = createProgress()
  process.env.KERNEL = kernel
  try {
    const up = await seconds(() => cluster.up(progress))
    console.log(
      `make up with KERNEL=${kernel}, packages cached: ${up.toFixed(1)} s until three nodes are Ready.`,
    )
    const client = await kubeClient(cluster)
    const captures: number[] = []
    for (let round = 0; round < 3; round++)
      captures.push(await seconds(() => takeCapture(cluster, client)))
    console.log(
      `Three nodes and their objects, read for one grading round: ${Math.min(...captures).toFixed(2)} s.`,
    )
  } finally {
    await cluster.down(progress)
  }
}

async function playLab(lab: number, kernel: KernelName): Promise<string> {
  const env = { ...process.env, CLUSTER: 'embedded', KERNEL: kernel, NAME: `bench-${kernel}` }
  const run = $({ cwd: projectRoot, env, quiet: true, nothrow: true })
  const { stdout } = await run`make lab-${lab}`
  await run`make down`
  return /to here: ([\d.]+ s)/.exec(stdout)?.[1] ?? 'failed'
}
