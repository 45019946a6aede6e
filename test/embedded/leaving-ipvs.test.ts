// Every command of docs/leaving-ipvs/README.md, while clients in Pods and on nodes send requests: not one may fail.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { EmbeddedCluster } from '../../cluster/embedded.ts'
import { type KubeClient, kubeClient } from '../../cluster/kube-client.ts'
import { flushNat } from '../../cluster/kube-proxy/flush-nat.ts'
import { switchMode } from '../../cluster/kube-proxy/switch-mode.ts'
import { deployWeb } from '../../course/deploy-web.ts'
import { LabBench } from '../../course/lab-bench.ts'
import { parseLabText } from '../../course/lab-text.ts'
import { FenceShell, learnerEnvironment } from '../../course/lint/fence-shell.ts'
import type { KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import { hostKernelTrouble, type KernelName } from '../../embedded/index.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { openCluster } from '../../grading/live-cluster.ts'
import { modeOf } from '../../grading/snapshot.ts'
import { projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'
import { waitFor } from '../../host/wait.ts'

const FOLDER = 'docs/leaving-ipvs'
const PAGE = join(projectRoot, FOLDER, 'README.md')
const NAMESPACE = 'default'
const SAME_PORT = readFileSync(join(import.meta.dirname, 'same-port.pl'), 'utf8')

describe.each<[KernelName, KubeProxyMode, KubeProxyMode]>([
  ['uml', 'ipvs', 'iptables'],
  ['host', 'iptables', 'nftables'],
])('on the kernel %s, from %s to %s mode', (kernel, from, to) => {
  const skipped = kernel === 'host' && hostKernelTrouble() !== undefined
  const cluster = new EmbeddedCluster(`leaving-${kernel}`)
  let client: KubeClient
  let shell: FenceShell
  let nodePortAndPod: string[]

  /** The counts of all clients, and the requests that failed. */
  async function traffic() {
    const { items } = await client.core.listNamespacedPod({
      namespace: NAMESPACE,
      labelSelector: 'app=traffic',
    })
    const logs = await Promise.all(
      items.map(({ metadata }) =>
        client.core.readNamespacedPodLog({ namespace: NAMESPACE, name: metadata?.name ?? '' }),
      ),
    )
    const lines = logs.flatMap((log) => log.split('\n'))
    const sum = (name: string) =>
      lines.reduce(
        (total, line) => total + Number(new RegExp(`\\b${name}=(\\d+)`).exec(line)?.[1] ?? 0),
        0,
      )
    return {
      clients: items.length,
      counts: { new: sum('new'), kept: sum('kept') },
      failed: lines.filter((line) => line.startsWith('FAILED')),
    }
  }

  /**
   * What becomes of two connections of the control plane from one port: to the node port of a Pod's
   * node, then to the Pod itself, as a ClusterIP's masqueraded one would.
   */
  async function fromOnePort(port: number) {
    const [node] = await cluster.nodes()
    const command = ['perl', '-e', SAME_PORT, String(port), ...nodePortAndPod]
    return (await cluster.exec(node as string, command, { timeoutMs: 20_000 })).stdout.split('\n')
  }

  beforeAll(async () => {
    if (skipped) return
    vi.stubEnv('KERNEL', kernel)
    await cluster.up(silent)
    client = await kubeClient(cluster)
    const bench = await LabBench.open(cluster, silent)
    await switchMode(cluster, from, { progress: silent })
    await flushNat(cluster, { progress: silent })
    await deployWeb(bench)
    await bench.apply(`${FOLDER}/shop.yaml`)
    const service = async (name: string) => {
      const { spec } = await client.core.readNamespacedService({ namespace: NAMESPACE, name })
      return { address: `${spec?.clusterIP}:80`, nodePort: spec?.ports?.[0]?.nodePort }
    }
    const [shop, stock] = [await service('shop'), await service('stock')]
    const [web] = await bench.pods('web')
    nodePortAndPod = [`${web?.status?.hostIP}:${shop.nodePort}`, `${web?.status?.podIP}:80`]
    const node = `${shop.address} own-node:${shop.nodePort}`
    // On a node without an endpoint, only IPVS mode answers for stock.
    const pod = from === 'ipvs' ? `${shop.address} ${stock.address}` : shop.address
    await bench.create('ConfigMap', 'traffic', { app: 'traffic' }, { data: { pod, node } })
    await cluster.synced?.(20_000)
    await bench.apply(`${FOLDER}/traffic.yaml`)
    await Promise.all([
      bench.rolledOut('DaemonSet', 'traffic-pod'),
      bench.rolledOut('DaemonSet', 'traffic-node'),
    ])
    await waitFor(
      'requests of every client',
      20_000,
      async () => (await traffic()).counts.kept > 30,
    )
    shell = new FenceShell(projectRoot, learnerEnvironment(cluster.name))
  }, 180_000)
  afterAll(async () => {
    shell?.end()
    vi.unstubAllEnvs()
    await cluster.down(silent)
  })

  test.skipIf(skipped)(
    'a port that is in use at a node port is lost for the Pod in IPVS mode only',
    async () => {
      expect(await fromOnePort(40_001)).toEqual(['open', from === 'ipvs' ? 'lost' : 'open', ''])
    },
    30_000,
  )

  test.skipIf(skipped)(
    'no request fails, and nothing of the old mode is left',
    async () => {
      expect((await traffic()).failed).toEqual([])
      for (const fence of parseLabText(readFileSync(PAGE, 'utf8'), PAGE).fences) {
        const { exitCode, output } = await shell.type(fence)
        expect(exitCode, `${fence.commands}\n${output}`).toBe(0)
        expect((await traffic()).failed, fence.commands).toEqual([])
      }
      const { live: _live, ...source } = await openCluster(cluster)
      const { nodes } = await source.snapshot()
      expect(nodes.map(modeOf)).toEqual([to, to, to])
      for (const node of nodes)
        expect(evaluate(node, to as 'iptables').differences.map(({ text }) => text)).toEqual([])
      const before = await traffic()
      await waitFor(
        'requests after the end',
        10_000,
        async () => (await traffic()).counts.new > before.counts.new + 30,
      )
      const { clients, failed, counts } = await traffic()
      expect(failed).toEqual([])
      expect(clients).toBe(6)
      expect(await fromOnePort(40_002)).toEqual(['open', 'open', ''])
      console.log(
        `${from} to ${to}: ${counts.new} requests over new connections, ${counts.kept} over kept ones`,
      )
    },
    300_000,
  )
})
