import { chalk } from 'zx/core'
import { type KubeClient, kubeClient } from '../cluster/kube-client.ts'
import {
  type KubeProxyPod,
  listKubeProxyPods,
  readLog,
} from '../cluster/kube-proxy/kube-proxy-pods.ts'
import { runningCluster } from '../cluster/select.ts'
import { main, Refusal } from '../host/main.ts'

/** The last lines of each log. */
const tailLines = 40

/** Highlights the line that names the proxier, and kube-proxy's errors. */
function paint(line: string): string {
  if (/Using \S+ Proxier/.test(line)) return chalk.bold(line)
  return /^[EF]\d{4} /.test(line) ? chalk.red(line) : line
}

async function show(
  client: KubeClient,
  { node, pod, trouble, restarts }: KubeProxyPod,
): Promise<void> {
  const state = trouble ? `, ${trouble}` : restarts > 0 ? `, restarted ${restarts} times` : ''
  console.log(chalk.cyan(`${node} (${pod}${state})`))
  const log =
    (await readLog(client, pod, { tailLines })) ||
    (await readLog(client, pod, { tailLines, previous: true }))
  for (const line of log.trimEnd().split('\n')) console.log(`  ${paint(line)}`)
}

await main(async () => {
  const requested = process.env.NODE
  const cluster = await runningCluster()
  const client = await kubeClient(cluster)
  const pods = await listKubeProxyPods(client)
  const chosen = pods.filter(({ node }) => !requested || node === requested)
  if (chosen.length === 0)
    throw new Refusal(
      `No kube-proxy runs on "${requested ?? 'any node'}": use NODE= with one of ${pods.map(({ node }) => node).join(', ')}.`,
    )
  for (const pod of chosen) await show(client, pod)
})
