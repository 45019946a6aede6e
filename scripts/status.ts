import { changingProcess } from '../cluster/cluster-lock.ts'
import { type Cluster, notUp } from '../cluster/driver.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { proxyModeScript } from '../cluster/node-report.ts'
import { runOnNode } from '../cluster/node-script.ts'
import { selectCluster } from '../cluster/select.ts'
import { ExitCode, main } from '../host/main.ts'

const modeScript = `${proxyModeScript()}\nproxy_mode 2>/dev/null || echo unknown`

/** One line per node: readiness, version, and the mode that its kube-proxy reports. */
async function nodeLines(cluster: Cluster): Promise<string[]> {
  const { core } = await kubeClient(cluster)
  const { items } = await core.listNode()
  return Promise.all(
    items.map(async ({ metadata, status }) => {
      const name = metadata?.name ?? ''
      const ready = status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True')
      const mode = await runOnNode(cluster, name, modeScript, { readOnly: true })
      const version = status?.nodeInfo?.kubeletVersion
      return `${name.padEnd(28)} ${ready ? 'Ready   ' : 'NotReady'} ${version}  kube-proxy: ${mode.stdout.trim()}`
    }),
  )
}

await main(async () => {
  const cluster = await selectCluster()
  if (!(await cluster.running())) {
    const other = changingProcess(cluster)
    const changing = `The cluster "${cluster.name}" is not up: process ${other?.pid} ${other?.doing}.`
    console.log(other ? changing : notUp(cluster).message)
    return ExitCode.notYet
  }
  console.log(
    `The ${cluster.driver} cluster "${cluster.name}" is up; its kubeconfig is ${cluster.kubeconfig}`,
  )
  for (const line of await nodeLines(cluster)) console.log(line)
})
