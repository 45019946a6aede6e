import type { Cluster } from '../cluster/driver.ts'
import { UserError } from './main.ts'

const tools = ['ipset', 'ipvsadm']
// A login shell, because sbin is not on every node's PATH.
const locate = (names: readonly string[]) => [
  'bash',
  '-lc',
  'for tool; do command -v "$tool"; done; true',
  'bash',
  ...names,
]

/** Installs what is missing on one node from the node's own apt, and says what was there. */
async function installTools(cluster: Cluster, node: string): Promise<string> {
  const { stdout } = await cluster.exec(node, locate(tools))
  const missing = tools.filter((tool) => !stdout.split('\n').some((path) => path.endsWith(`/${tool}`)))
  if (missing.length > 0) {
    const install = `apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy ${missing.join(' ')}`
    const { exitCode, stderr } = await cluster.exec(node, ['sh', '-c', install], { timeoutMs: 300_000 })
    if (exitCode !== 0)
      throw new UserError(
        `${missing.join(' and ')} could not be installed on ${node}: ${stderr.trim().split('\n').at(-1)}`,
      )
  }
  const shown = await cluster.exec(node, locate(tools))
  const how = missing.length > 0 ? `installed ${missing.join(' and ')}` : 'already there'
  return `${node}: ${how} (${shown.stdout.trim().split('\n').join(', ')})`
}

/** Puts ipset and ipvsadm on every node that lacks them; a line for each node. Throws UserError when apt can't install them. */
export async function installToolsEverywhere(cluster: Cluster): Promise<string[]> {
  const nodes = await cluster.nodes()
  return Promise.all(nodes.map((node) => installTools(cluster, node)))
}
