import type { Cluster } from '../cluster/driver.ts'
import { EmbeddedCluster } from '../cluster/embedded.ts'
import { kubeClient } from '../cluster/kube-client.ts'
import { takeCapture } from '../cluster/snapshot.ts'
import type { Progress } from '../host/progress.ts'

const rounds = 3
const commands = ['iptables-save -c', 'ipset save', 'ipvsadm -Sn', 'ip -j -d addr']

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return (performance.now() - began) / 1000
}

/** Simulates a grader without a snapshot: each step runs one command on each node. */
async function oneExecPerAssertion(cluster: Cluster, steps: number): Promise<void> {
  const nodes = await cluster.nodes()
  for (let step = 0; step < steps; step++)
    await Promise.all(nodes.map((node) => cluster.exec(node, ['sh', '-c', commands[step % commands.length] ?? ''])))
}

/**
 * Starts a separate cluster and prints the start-up time and the time of reading it for one grading round: one exec per node
 * for all steps, compared with one exec per node and step.
 */
export async function measureCluster(steps: number, progress: Progress): Promise<void> {
  const cluster = new EmbeddedCluster('bench')
  try {
    const up = await seconds(() => cluster.up(progress))
    console.log(`make up, packages cached: ${up.toFixed(1)} s until three nodes are Ready.`)
    const client = await kubeClient(cluster)
    const once: number[] = []
    const each: number[] = []
    for (let round = 0; round < rounds; round++) {
      once.push(await seconds(() => takeCapture(cluster, client)))
      each.push(await seconds(() => oneExecPerAssertion(cluster, steps)))
    }
    const [snapshot, separate] = [Math.min(...once), Math.min(...each)]
    console.log(
      `One grading round of ${steps} steps on three nodes: ${snapshot.toFixed(2)} s with one exec per node, ` +
        `${separate.toFixed(2)} s with one exec per assertion (${(separate / snapshot).toFixed(1)} times as long).`,
    )
  } finally {
    await cluster.down(progress)
  }
}
