import { consent } from '../cluster/consent.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { selectCluster } from '../cluster/select.ts'
import { ownVariant } from '../course/cluster-settings.ts'
import { deployWeb } from '../course/deploy-web.ts'
import { LabBench } from '../course/lab-bench.ts'
import { programmed } from '../course/settled.ts'
import { main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

await main(async () => {
  const cluster = await selectCluster()
  await consent(
    cluster,
    'create the Deployment and the Service of the labs, "web", in namespace "default"',
  )
  const client = await kubeClient(cluster)
  const lines = await deployWeb(
    new LabBench(cluster, client, createProgress(), await ownVariant(client)),
  )
  // The learner's next command is a request to the Service.
  await programmed({ cluster, client }, 5000)
  for (const line of lines) console.log(line)
})
