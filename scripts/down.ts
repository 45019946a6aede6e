import { selectCluster } from '../cluster/select.ts'
import { main } from './main.ts'
import { createProgress } from './progress.ts'

await main(async () => {
  const cluster = await selectCluster()
  await cluster.down(createProgress())
  console.log(`The cluster "${cluster.name}" is gone.`)
})
