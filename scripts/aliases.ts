import { quote } from 'zx/core'
import { projectRoot } from '../cluster/layout.ts'
import { selectCluster } from '../cluster/select.ts'
import { main } from './main.ts'
import { chosenNode } from './node-choice.ts'

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
