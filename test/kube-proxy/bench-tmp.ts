import { defaultConfig } from '../../dataplane/kube-proxy/config.ts'
import { readObjects } from '../../dataplane/objects.ts'
import { predict } from '../../dataplane/predict.ts'

const build = (n: number) => {
  const items: unknown[] = [
    {
      kind: 'Node',
      metadata: { name: 'w' },
      spec: { podCIDR: '10.244.1.0/24' },
      status: { addresses: [{ type: 'InternalIP', address: '172.18.0.3' }] },
    },
  ]
  for (let i = 0; i < n; i++) {
    items.push({
      kind: 'Service',
      metadata: { namespace: 'default', name: `svc-${i}` },
      spec: { clusterIP: `10.96.${i >> 8}.${i & 255}`, type: 'ClusterIP', ports: [{ port: 80, protocol: 'TCP' }] },
    })
    items.push({
      kind: 'EndpointSlice',
      metadata: { namespace: 'default', name: `svc-${i}-x`, labels: { 'kubernetes.io/service-name': `svc-${i}` } },
      addressType: 'IPv4',
      ports: [{ name: '', port: 8080, protocol: 'TCP' }],
      endpoints: Array.from({ length: 10 }, (_, e) => ({
        addresses: [`10.${128 + (i >> 10)}.${(i >> 2) & 255}.${(i & 3) * 10 + e + 1}`],
        nodeName: e === 0 ? 'w' : 'v',
        conditions: { ready: true },
      })),
    })
  }
  return { kind: 'List', items }
}
const json = JSON.parse(JSON.stringify(build(10000)))
const mode = (process.argv[2] ?? 'iptables') as 'iptables'
for (let i = 0; i < 4; i++) {
  const c0 = process.cpuUsage().user
  const { objects } = readObjects(json)
  const c1 = process.cpuUsage().user
  predict(objects, {
    node: 'w',
    mode,
    version: 'v1.30.3',
    config: { ...defaultConfig(), clusterCIDR: '10.244.0.0/16' },
  })
  const c2 = process.cpuUsage().user
  console.log('cpu read', (c1 - c0) / 1000, 'predict', (c2 - c1) / 1000, process.memoryUsage().rss / 1e6)
}
