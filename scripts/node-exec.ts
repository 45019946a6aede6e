// Called by the functions of `make aliases`:  node-exec.ts NODE COMMAND [ARGUMENT …]
import { selectCluster } from '../cluster/select.ts'
import { chosenNode } from '../course/live-node.ts'
import { main } from '../host/main.ts'
import { printResult } from '../host/output.ts'

await main(async () => {
  const [node, ...command] = process.argv.slice(2)
  const cluster = await selectCluster()
  const result = await cluster.exec(await chosenNode(cluster, node), command)
  printResult(result)
  return result.exitCode
})
