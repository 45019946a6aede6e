import { installToolsEverywhere } from '../cluster/node-tools.ts'
import { runningCluster } from '../cluster/select.ts'
import { main } from '../host/main.ts'

await main(async () => {
  for (const line of await installToolsEverywhere(await runningCluster())) console.log(line)
})
