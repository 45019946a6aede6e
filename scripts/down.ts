import { selectCluster } from '../cluster/select.ts'
import { main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

await main(async () => {
  const cluster = await selectCluster()
  await cluster.down(createProgress())
  console.log(`The cluster "${cluster.name}" is gone.`)
})
