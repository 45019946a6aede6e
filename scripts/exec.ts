import { selectCluster } from '../cluster/select.ts'
import { chosenMachine } from '../course/live-node.ts'
import { main, UserError } from '../host/main.ts'
import { printResult } from '../host/output.ts'

await main(async () => {
  const command = process.env.CMD
  if (!command) throw new UserError("The command is missing: use for example `make exec CMD='ipvsadm -Ln'`.")
  const cluster = await selectCluster()
  const result = await cluster.exec(await chosenMachine(cluster), ['sh', '-c', command])
  printResult(result)
  return result.exitCode
})
