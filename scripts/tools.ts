import { selectCluster } from '../cluster/select.ts'
import { installToolsEverywhere } from './install-tools.ts'
import { main } from './main.ts'

await main(async () => {
  for (const line of await installToolsEverywhere(await selectCluster())) console.log(line)
})
