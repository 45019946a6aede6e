import { consent } from '../cluster/consent.ts'
import type { Cluster } from '../cluster/driver.ts'
import { describeBackends, iptablesBackends } from '../cluster/node-script.ts'
import { installNodeTools, type ToolsReport } from '../cluster/node-tools/install.ts'

function describe({ node, installed, from, paths }: ToolsReport): string {
  const how = from === undefined ? 'already installed' : `installed ${installed.join(' and ')} from ${from}`
  return `${node}: ${how} (${paths.join(', ')})`
}

/**
 * Installs ipset and ipvsadm on every node that lacks them. Returns a line for each node, which also names the iptables back
 * end, and whether anything was installed. Throws NodeToolsError when they can't be installed.
 */
export async function installToolsEverywhere(cluster: Cluster): Promise<{ lines: string[]; installed: boolean }> {
  const nodes = await cluster.nodes()
  await consent(cluster, `install ipset and ipvsadm on the nodes that lack them (of ${nodes.length})`)
  const done = await Promise.all(
    nodes.map(async (node) => {
      const report = await installNodeTools(cluster, node)
      const line = `${describe(report)}; ${describeBackends(await iptablesBackends(cluster, node))}`
      return { line, installed: report.installed.length > 0 }
    }),
  )
  return { lines: done.map(({ line }) => line), installed: done.some(({ installed }) => installed) }
}
