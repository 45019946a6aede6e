import { selectCluster } from '../cluster/select.ts'
import { main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

await main(async () => {
  const cluster = await selectCluster()
  await cluster.down(createProgress())
  console.log(
    cluster.driver === 'context'
      ? `Nothing of these labs is left on the cluster of context "${cluster.name}", which itself stays; so do kube-proxy's mode and tools on its nodes.`
      : `The cluster "${cluster.name}" is gone.`,
  )
})
