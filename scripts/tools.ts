import { selectCluster } from '../cluster/select.ts'
import { installToolsEverywhere } from '../course/install-tools.ts'
import { main, UserError } from '../host/main.ts'

await main(async () => {
  const cluster = await selectCluster()
  if (!(await cluster.running())) throw new UserError(`The cluster "${cluster.name}" is not up: run \`make up\`.`)
  const { lines } = await installToolsEverywhere(cluster)
  for (const line of lines) console.log(line)
})
