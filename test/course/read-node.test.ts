import { expect, test } from 'vitest'
import type { Cluster, KubeClient } from '../../cluster/driver.ts'
import { resolveRoute } from '../../course/read-node.ts'
import { madeCluster } from '../cluster/made-cluster.ts'

/** A cluster whose API server refuses every request for a Pod or a Service with this code. */
function refusingCluster(code: number): Cluster {
  const refuse = () => Promise.reject(Object.assign(new Error(`refused with ${code}`), { code }))
  const core: Partial<KubeClient['core']> = {
    readNamespacedPod: refuse,
    readNamespacedService: refuse,
  }
  const cluster = madeCluster({
    client: async () => ({ core }) as KubeClient,
    nodes: async () => ['worker'],
  })
  return cluster
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

test('a port that the Service does not have is refused with those that it has', async () => {
  const spec = {
    clusterIP: '10.96.0.10',
    ports: [{ port: 53, protocol: 'UDP' }, { port: 53, protocol: 'TCP' }, { port: 9153 }],
  }
  const core: Partial<KubeClient['core']> = {
    readNamespacedService: async ({ namespace, name }) => ({
      metadata: { namespace, name },
      spec,
    }),
  }
  const cluster = madeCluster({
    client: async () => ({ core }) as KubeClient,
    nodes: async () => ['worker'],
  })
  const to = async (destination: string) => (await resolveRoute(cluster, 'host', destination)).to
  expect(await to('svc/kube-dns')).toBe('10.96.0.10:53/udp')
  expect(await to('svc/kube-dns:53')).toBe('10.96.0.10:53/tcp')
  expect(await to('svc/kube-dns:53/udp')).toBe('10.96.0.10:53/udp')
  expect(await to('svc/kube-dns/tcp')).toBe('10.96.0.10:53/tcp')
  expect(await to('svc/kube-system/kube-dns:9153')).toBe('10.96.0.10:9153/tcp')
  expect(await to('svc/kube-system/kube-dns/udp')).toBe('10.96.0.10:53/udp')
  await expect(to('svc/kube-dns:81')).rejects.toThrow(
    'Service "kube-dns" has no port 81/tcp; it has 53/udp, 53/tcp, 9153/tcp.',
  )
  await expect(to('svc/kube-dns:9153/udp')).rejects.toThrow('has no port 9153/udp')
  await expect(to('svc/kube-dns/sctp')).rejects.toThrow('has no port sctp')
})
