import { selectCluster } from '../cluster/select.ts'
import { chosenMachine } from '../course/live-node.ts'
import { main } from '../host/main.ts'

await main(async () => {
  const cluster = await selectCluster()
  return cluster.shell(await chosenMachine(cluster))
})
