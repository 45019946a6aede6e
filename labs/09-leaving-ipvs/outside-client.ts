// The client on the machine outside the cluster, as the text of lab 9 starts it: its targets, its
// start and its end.

import { runOnNode } from '../../cluster/node-script.ts'
import type { LabBench } from '../../course/lab-bench.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { programText } from '../../host/program-text.ts'
import { waitFor } from '../../host/wait.ts'

const FOLDER = 'labs/09-leaving-ipvs'
const SERVICE = 'stock'
const startClient = programText(`${FOLDER}/outside-client.sh`)
const readLog = programText(`${FOLDER}/outside-log.sh`)
const endClient = programText(`${FOLDER}/end-outside.sh`)

/** The address that the load balancer outside gives to stock. */
export const balancedAddress = (bench: LabBench): Promise<string> =>
  waitFor('an address of the load balancer', 60_000, async () => {
    const { status } = await bench.client.core.readNamespacedService({
      namespace: 'default',
      name: SERVICE,
    })
    return status?.loadBalancer?.ingress?.[0]?.ip
  })

/**
 * Starts the client outside, where the cluster has such a machine: it calls the node port of stock
 * on each node, and the load balancer.
 */
export async function startOutside(bench: LabBench): Promise<void> {
  if (!bench.cluster.capabilities.hasOutside) return
  const place = { namespace: 'default', name: 'traffic-program' }
  const [nodes, address, { spec }, { data }] = await Promise.all([
    bench.nodes(),
    balancedAddress(bench),
    bench.client.core.readNamespacedService({ namespace: 'default', name: SERVICE }),
    bench.client.core.readNamespacedConfigMap(place),
  ])
  const [port] = spec?.ports ?? []
  const targets = nodes.map((node) => `${node.address}:${port?.nodePort}`)
  const program = Buffer.from(data?.['traffic.pl'] ?? '').toString('base64')
  const args = [program, ...targets, `${address}:${port?.port}`]
  // Noted, and so in a shell of its own: the shell that waits on a machine must have nothing in the
  // background.
  await runOnNode(bench.cluster, OUTSIDE, startClient, { args, noted: true })
  await waitFor('answers for the client outside', 60_000, async () => {
    const { stdout } = await runOnNode(bench.cluster, OUTSIDE, readLog, { readOnly: true })
    return /^new=[1-9]/m.test(stdout)
  })
}

/** Ends the client outside, and removes its files. */
export async function endOutside({ cluster }: LabBench): Promise<void> {
  if (cluster.capabilities.hasOutside) await runOnNode(cluster, OUTSIDE, endClient)
}
