// Measures both modes at growing numbers of Services: [MAX=1000] [ENDPOINTS=3] measure.ts; with
// NFT=1 nftables mode and iptables-nft, on this machine's own kernel. SHOW=1, or SHOW= with a part
// of the table, prints the last run.

import { consent } from '../cluster/consent.ts'
import type { Cluster } from '../cluster/driver.ts'
import { type KubeClient, kubeClient } from '../cluster/kube-client.ts'
import { runningCluster } from '../cluster/select.ts'
import { lastHostRun, lastRun, measureHere, measureOnHost } from '../course/scale/measure.ts'
import { measurementTable, scaleRemarks, sizesOf, tableParts } from '../course/scale/results.ts'
import { main, Refusal } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'
import { isOn, readSwitch } from '../host/switches.ts'
import { linesFor } from '../host/wrap-lines.ts'

const onHost = isOn('NFT')
const again = onHost ? 'make measure NFT=1' : 'make measure'

/** Prints the last run, or a part of its table. */
async function show(cluster: Cluster, client: KubeClient, part: string | undefined) {
  if (part !== undefined && !tableParts.includes(part))
    throw new Refusal(
      `"${part}" is no part of the table: write SHOW=1 for all of it, or SHOW= with ${tableParts.join(', ')}.`,
    )
  const run = await (onHost ? lastHostRun : lastRun)(cluster, client)
  if (!run) throw new Refusal(`The cluster has no run yet: ${again}`)
  const remarks = part === undefined ? ['', ...scaleRemarks(run)] : []
  const wrapped = remarks.flatMap((line) => linesFor(process.stdout, line))
  console.log([...measurementTable(run, part), ...wrapped].join('\n'))
}

await main(async () => {
  const cluster = await runningCluster()
  const client = await kubeClient(cluster)
  const { SHOW } = process.env
  const isWhole = readSwitch(SHOW)
  if (isWhole !== false) return show(cluster, client, isWhole ? undefined : SHOW)
  await consent(cluster, 'write the figures into ConfigMap "lab-6" in namespace "default"')
  const { folder, run } = await (onHost ? measureOnHost : measureHere)(
    cluster,
    client,
    createProgress(),
  )
  const file = `${folder}/${onHost ? 'scale-nft' : 'scale'}`
  const lines = [
    `Measured at ${sizesOf(run).join(', ')} Services ${onHost ? "on this machine's own kernel" : 'in both modes'}, in ${run.seconds} s.`,
    `Predict, then look at one part after the other: ${again} SHOW=rules, or ${tableParts.slice(1).join(', ')}; SHOW=1 prints everything.`,
    `All figures, and the curves: ${file}.txt, ${file}.svg`,
  ]
  for (const line of lines) console.log(linesFor(process.stdout, line, '', '  ').join('\n'))
})
