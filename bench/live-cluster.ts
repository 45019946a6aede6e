import { EmbeddedCluster } from '../cluster/embedded.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { takeCapture } from '../cluster/snapshot.ts'
import { measureChanges, measureRequests } from '../course/scale/measure-scale.ts'
import { median } from '../course/scale/measurement.ts'
import { MeasuringNode } from '../course/scale/measuring-node.ts'
import { iptablesMode, ipvsMode, nftablesMode } from '../course/scale/programmed-mode.ts'
import { syntheticClusterIP } from '../course/scale/synthetic-cluster.ts'
import type { KernelName } from '../embedded/index.ts'
import { $ } from '../host/command.ts'
import { projectRoot } from '../host/layout.ts'
import type { Progress } from '../host/progress.ts'

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return (performance.now() - began) / 1000
}

/** Starts a separate cluster and prints the start-up time and the time of reading it for one grading round. */
export async function measureCluster(kernel: KernelName, progress: Progress): Promise<void> {
  const cluster = new EmbeddedCluster('bench')
  process.env.KERNEL = kernel
  try {
    const up = await seconds(() => cluster.up(progress))
    console.log(`make up with KERNEL=${kernel}, packages cached: ${up.toFixed(1)} s until three nodes are Ready.`)
    const client = await kubeClient(cluster)
    const captures: number[] = []
    for (let round = 0; round < 3; round++) captures.push(await seconds(() => takeCapture(cluster, client)))
    console.log(`Three nodes and their objects, read for one grading round: ${Math.min(...captures).toFixed(2)} s.`)
  } finally {
    await cluster.down(progress)
  }
}

/** Labs that need no IPVS, so that every kernel can play them. */
const played = [1, 3]

/** Plays labs with their solutions on a cluster of each kernel, started for each, and prints the seconds side by side. */
export async function compareKernels(kernels: readonly KernelName[], progress: Progress): Promise<void> {
  const rows = new Map<number, string[]>()
  for (const lab of played)
    for (const kernel of kernels) {
      progress.start(`Playing lab ${lab} with KERNEL=${kernel}`)
      const env = { ...process.env, CLUSTER: 'embedded', KERNEL: kernel, NAME: `bench-${kernel}` }
      const run = $({ cwd: projectRoot, env, quiet: true })
      const { stdout } = await run`make lab-${lab}`.nothrow()
      await run`make down`.nothrow()
      const taken = /to here: ([\d.]+ s)/.exec(stdout)?.[1] ?? 'failed'
      rows.set(lab, [...(rows.get(lab) ?? []), taken])
      progress.end(taken !== 'failed')
    }
  console.log(`From \`make lab-N\` without a cluster to its score:`)
  console.log(['', ...kernels.map((kernel) => `KERNEL=${kernel}`)].map((text) => text.padStart(12)).join(''))
  for (const [lab, taken] of rows) console.log([`lab ${lab}`, ...taken].map((text) => text.padStart(12)).join(''))
}

/** Modes of lab 6's measurements and beyond it, and where the kernels of the embedded cluster have none of them. */
const modes = { iptables: iptablesMode, ipvs: ipvsMode, nftables: nftablesMode }
const without: { mode: keyof typeof modes; probe: string; why: string }[] = [
  {
    mode: 'ipvs',
    probe: 'ipvsadm -A -t 198.51.100.0:20000 -s rr && ipvsadm -C && ip link add type dummy',
    why: 'IPVS',
  },
  {
    mode: 'nftables',
    probe: "nft 'add table t; add chain t c { type nat hook prerouting priority 0; }'",
    why: 'NAT in nf_tables',
  },
]
const measuredSizes = [10, 300, 1000, 3000]
const endpointsEach = 3

/** Prints what lab 6 measures, for each mode and each kernel side by side: what the kernel takes, without kube-proxy's own work. */
export async function compareModes(kernels: readonly KernelName[], progress: Progress): Promise<void> {
  const columns = ['Services', 'program', 'change one', 'new', 'more', 'kept alive'].map((text) => text.padStart(12))
  console.log(
    `What lab 6 measures, ${endpointsEach} endpoints a Service; "more": a new connection to the last less one to the first Service:`,
  )
  console.log(`${''.padEnd(22)}${columns.join('')}`)
  for (const mode of ['iptables', 'ipvs', 'nftables'] as const)
    for (const kernel of kernels) {
      const name = `KERNEL=${kernel} ${mode}`.padEnd(22)
      const node = await MeasuringNode.boot('bench-modes', 1024, progress, kernel)
      try {
        const lack = without.find((one) => one.mode === mode)
        const lacks =
          lack &&
          (await node.run(
            `unshare --net sh -c '${lack.probe.replaceAll("'", '"')}' >/dev/null 2>&1 && echo ok || true`,
          )) === ''
        if (lacks) {
          console.log(`${name}  not applicable: this kernel has no ${lack.why}`)
          continue
        }
        const programmed = modes[mode](node, endpointsEach)
        for (const services of measuredSizes) {
          progress.start(`${name.trim()}, ${services} Services`)
          const { ms } = await programmed.program(services)
          const asked = await measureRequests(node, [0, services - 1].map(syntheticClusterIP), 8)
          const changed = await measureChanges(programmed, 3)
          progress.end(true)
          const micros = (values: readonly number[]) => `${(median(values) / 1000).toFixed(1)} µs`
          const cells = [
            ...[String(services), `${ms.toFixed(0)} ms`, `${median(changed.map((one) => one.ms)).toFixed(1)} ms`],
            ...[
              asked.map(({ newNs }) => newNs),
              asked.map(({ newMoreNs }) => newMoreNs),
              asked.map(({ keptNs }) => keptNs),
            ].map(micros),
          ]
          console.log(name + cells.map((text) => text.padStart(12)).join(''))
        }
      } finally {
        await node.stop()
      }
    }
}
