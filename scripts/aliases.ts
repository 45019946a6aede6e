import { quote } from 'zx/core'
import { selectCluster } from '../cluster/select.ts'
import { chosenNode } from '../course/node-choice.ts'
import { projectRoot } from '../host/layout.ts'
import { main } from '../host/main.ts'

/** Functions rather than aliases, so that `ipt KUBE-SERVICES` takes its chain and scripts may use them too. */
const commands = { ipt: 'iptables -t nat -nvL', ipv: 'ipvsadm -Ln', ips: 'ipset list' }

await main(async () => {
  const cluster = await selectCluster()
  const node = await chosenNode(cluster)
  const run = `node ${quote(`${projectRoot}/scripts/start.mjs`)} scripts/node-exec.ts ${quote(node)}`
  for (const [name, command] of Object.entries(commands))
    console.log(`${name}() { (cd ${quote(projectRoot)} && ${run} ${command} "$@"); }`)
  console.log(`# ipt CHAIN, ipv and ips SET now look at ${node}.`)
})
