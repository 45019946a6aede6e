import { selectCluster } from '../cluster/select.ts'
import { main } from './main.ts'
import { chosenNode } from './node-choice.ts'

await main(async () => {
  const cluster = await selectCluster()
  return cluster.shell(await chosenNode(cluster))
})
