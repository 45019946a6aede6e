import { selectCluster } from '../cluster/select.ts'
import { main } from '../host/main.ts'
import { createProgress } from '../host/progress.ts'

await main(async () => {
  const began = performance.now()
  const progress = createProgress()
  const cluster = await selectCluster(undefined, undefined, { creating: progress })
  await cluster.up(progress)
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  const nodes = await cluster.nodes()
  console.log(
    `${nodes.length} nodes are ready on the ${cluster.driver} cluster "${cluster.name}" after ${seconds} s.`,
  )
  console.log(
    'Next: eval "$(make env)" configures kubectl for it; make lab-1 starts the first lab.',
  )
})
