import { selectCluster } from '../cluster/select.ts'
import { chosenNode } from '../course/read-node.ts'
import { projectRoot } from '../host/layout.ts'
import { main } from '../host/main.ts'
import { printResult } from '../host/output.ts'
import { shellWord } from '../host/shell-word.ts'

/** Functions instead of aliases, so that `ipt KUBE-SERVICES` accepts a chain and scripts can use them. */
const commands = { ipt: 'iptables -t nat -nvL', ipv: 'ipvsadm -Ln', ips: 'ipset list' }

await main(async () => {
  const cluster = await selectCluster()
  const node = await chosenNode(cluster)
  const run = `node ${shellWord(`${projectRoot}/scripts/start.mjs`)} scripts/exec.ts ${shellWord(node)}`
  const functions = Object.entries(commands).map(
    ([name, command]) => `${name}() { (cd ${shellWord(projectRoot)} && ${run} ${command} "$@"); }`,
  )
  const comment = `# ipt CHAIN, ipv and ips SET now run on ${node.replaceAll(/\s/g, ' ')}.`
  printResult({ stdout: `${[...functions, comment].join('\n')}\n`, stderr: '' })
})
