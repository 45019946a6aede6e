import { selectCluster } from '../cluster/select.ts'
import { main } from './main.ts'
import { chosenMachine } from './node-choice.ts'

await main(async () => {
  const cluster = await selectCluster()
  return cluster.shell(await chosenMachine(cluster))
})
