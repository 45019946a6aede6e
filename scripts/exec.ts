// Runs CMD on the node NODE; --shell opens a shell there. The functions of `make aliases` call
// exec.ts NODE COMMAND [ARGUMENT …]
import { chosenMachine, chosenNode, selectCluster } from '../cluster/select.ts'
import { main, Refusal } from '../host/main.ts'
import { printResult } from '../host/output.ts'

await main(async () => {
  const [node, ...args] = process.argv.slice(2)
  const cluster = await selectCluster()
  if (node === '--shell') return cluster.shell(await chosenMachine(cluster))
  const command = node === undefined ? ['sh', '-c', process.env.CMD ?? ''] : args
  if (!command.at(-1))
    throw new Refusal("The command is missing: use for example `make exec CMD='ipvsadm -Ln'`.")
  const machine =
    node === undefined ? await chosenMachine(cluster) : await chosenNode(cluster, node)
  const result = await cluster.exec(machine, command)
  printResult(result)
  return result.exitCode
})
