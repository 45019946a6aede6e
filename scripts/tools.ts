import { runningCluster } from '../cluster/select.ts'
import { installToolsEverywhere } from '../course/install-tools.ts'
import { main } from '../host/main.ts'

await main(async () => {
  const cluster = await runningCluster()
  const { lines } = await installToolsEverywhere(cluster)
  for (const line of lines) console.log(line)
})
