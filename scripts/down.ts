import { selectCluster } from '../cluster/select.ts'
import { main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

await main(async () => {
  const cluster = await selectCluster()
  await cluster.down(createProgress())
  console.log(
    cluster.capabilities.ownedByUser
      ? `All objects of these labs were removed from the cluster of context "${cluster.name}"; kube-proxy's mode and the tools on its nodes are unchanged.`
      : `The cluster "${cluster.name}" was removed.`,
  )
})
