// Measures both modes at growing numbers of Services:  [MAX=1000] [ENDPOINTS=3] measure.ts; SHOW=1, or SHOW= with a part of the
// table, prints the last run.

import { consent } from '../cluster/consent.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { runningCluster } from '../cluster/select.ts'
import { lastRun, measureHere } from '../course/scale/measure.ts'
import { measurementTable, scaleRemarks, tableParts } from '../course/scale/results.ts'
import { main, Refusal } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'
import { readSwitch } from '../host/switches.ts'

await main(async () => {
  const cluster = await runningCluster()
  const client = await kubeClient(cluster)
  const { SHOW } = process.env
  const isWhole = readSwitch(SHOW)
  if (isWhole !== false) {
    const part = isWhole ? undefined : SHOW
    if (part !== undefined && !tableParts.includes(part))
      throw new Refusal(
        `"${part}" is no part of the table: write SHOW=1 for all of it, or SHOW= with ${tableParts.join(', ')}.`,
      )
    const run = await lastRun(cluster, client)
    if (!run) throw new Refusal('The cluster has no run yet: make measure')
    const remarks = part === undefined ? ['', ...scaleRemarks(run)] : []
    console.log([...measurementTable(run, part), ...remarks].join('\n'))
    return
  }
  await consent(cluster, 'write the figures into ConfigMap "lab-6" in namespace "default"')
  const { folder, run } = await measureHere(cluster, client, createProgress())
  console.log(
    [
      `Measured at ${run.iptables.map(({ services }) => services).join(', ')} Services in both modes, in ${run.seconds} s.`,
      `Predict, then look at one part after the other: make measure SHOW=rules, or ${tableParts.slice(1).join(', ')}; SHOW=1 prints everything.`,
      `All figures, and the curves: ${folder}/scale.txt, ${folder}/scale.svg`,
    ].join('\n'),
  )
})
