// What the functions of `make aliases` call:  node-exec.ts NODE COMMAND [ARGUMENT …]
import { selectCluster } from '../cluster/select.ts'
import { chosenNode } from '../course/node-choice.ts'
import { main } from '../host/main.ts'

await main(async () => {
  const [node, ...command] = process.argv.slice(2)
  const cluster = await selectCluster()
  const result = await cluster.exec(await chosenNode(cluster, node), command)
  process.stdout.write(result.stdout)
  process.stderr.write(result.stderr)
  return result.exitCode
})
