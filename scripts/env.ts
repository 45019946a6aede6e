// Prints shell lines that point kubectl at the cluster; with --aliases, short commands for a node:
// eval "$(make env)"
import { dirname } from 'node:path'
import { kubectlPath } from '../cluster/programs.ts'
import { chosenNode, selectCluster } from '../cluster/select.ts'
import { projectRoot, START } from '../host/layout.ts'
import { main } from '../host/main.ts'
import { printResult } from '../host/output.ts'
import { createProgress } from '../host/progress.ts'
import { shellWord } from '../host/shell-word.ts'

/**
 * Functions instead of aliases, so that `ipt KUBE-SERVICES` accepts a chain and scripts can use
 * them.
 */
const commands = { ipt: 'iptables -t nat -nvL', ipv: 'ipvsadm -Ln', ips: 'ipset list' }

await main(async () => {
  const lines = await (process.argv.includes('--aliases') ? aliases() : environment())
  printResult({ stdout: `${lines.join('\n')}\n`, stderr: '' })
})

async function environment(): Promise<string[]> {
  const { kubeconfig } = await selectCluster()
  const folder = dirname(await kubectlPath(createProgress()))
  return [`export KUBECONFIG=${shellWord(kubeconfig)}`, `export PATH=${shellWord(folder)}:"$PATH"`]
}

async function aliases(): Promise<string[]> {
  const node = await chosenNode(await selectCluster())
  const run = `node ${shellWord(START)} scripts/exec.ts ${shellWord(node)}`
  const functions = Object.entries(commands).map(
    ([name, command]) => `${name}() { (cd ${shellWord(projectRoot)} && ${run} ${command} "$@"); }`,
  )
  return [...functions, `# ipt CHAIN, ipv and ips SET now run on ${node.replaceAll(/\s/g, ' ')}.`]
}
