import { expect, test } from 'vitest'
import type { Cluster, KubeClient } from '../../cluster/driver.ts'
import { resolveRoute } from '../../course/read-node.ts'

/** A cluster whose API server refuses every request for a Pod or a Service with this code. */
function refusingCluster(code: number): Cluster {
  const refuse = () => Promise.reject(Object.assign(new Error(`refused with ${code}`), { code }))
  const core: Partial<KubeClient['core']> = {
    readNamespacedPod: refuse,
    readNamespacedService: refuse,
  }
  const cluster: Partial<Cluster> = {
    client: async () => ({ core }) as KubeClient,
    nodes: async () => ['worker'],
  }
  return cluster as Cluster
}

test.each([
  [
    'pod/web',
    '10.96.0.10:53',
    'There is no Pod "web" in namespace "default"; `kubectl get pods,services -A` lists',
  ],
  [
    'host',
    'svc/other/web:80',
    'There is no Service "web" in namespace "other"; `kubectl get pods,services -A` lists',
  ],
])(
  'from %s to %s: what does not exist is named, and another refusal is not taken for that',
  async (from, to, told) => {
    await expect(resolveRoute(refusingCluster(404), from, to)).rejects.toThrow(told)
    await expect(resolveRoute(refusingCluster(403), from, to)).rejects.toThrow('refused with 403')
  },
)
