// Measures both modes at growing numbers of Services:  [MAX=1000] [ENDPOINTS=3] [SHOW=1] measure.ts

import { consent } from '../cluster/consent.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { runningCluster } from '../cluster/select.ts'
import { lastRun, measureHere } from '../course/scale/measure.ts'
import { measurementTable, scaleRemarks } from '../course/scale/results.ts'
import { main, Refusal } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

await main(async () => {
  const cluster = await runningCluster()
  const client = await kubeClient(cluster)
  if (process.env.SHOW) {
    const run = await lastRun(cluster, client)
    if (!run) throw new Refusal('The cluster has no run yet: make measure')
    console.log([...measurementTable(run), '', ...scaleRemarks(run)].join('\n'))
    return
  }
  await consent(cluster, 'write the figures into ConfigMap "lab-6" in namespace "default"')
  const { folder, run } = await measureHere(cluster, client, createProgress())
  console.log(
    [
      ...measurementTable(run),
      '',
      ...scaleRemarks(run),
      '',
      `The diagram: ${folder}/scale.svg`,
    ].join('\n'),
  )
})
