// Every command of docs/leaving-ipvs/README.md, while clients in Pods, on nodes and outside send
// requests: not one may fail.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { readClientLog } from '../../checks/09-leaving-ipvs/client-log.ts'
import { execInPod } from '../../cluster/context/pod-exec.ts'
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
import { OUTSIDE } from '../../host/outside.ts'
import { silent } from '../../host/progress.ts'
import { timeoutScale, waitFor } from '../../host/wait.ts'
import { startOutside } from '../../labs/09-leaving-ipvs/outside-client.ts'

const MANIFESTS = 'labs/09-leaving-ipvs/manifests'
const PAGE = join(projectRoot, 'docs/leaving-ipvs/README.md')
const NAMESPACE = 'default'
const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)
const ONE_PORT = readFileSync(join(import.meta.dirname, 'one-port.pl'), 'utf8')

describe.each<[KernelName, KubeProxyMode, KubeProxyMode]>([
  ['uml', 'ipvs', 'iptables'],
  ['host', 'iptables', 'nftables'],
])('on the kernel %s, from %s to %s mode', (kernel, from, to) => {
  const skipped = kernel === 'host' && hostKernelTrouble() !== undefined
  const cluster = new EmbeddedCluster(`leaving-${kernel}`)
  let client: KubeClient
  let shell: FenceShell
  let nodePortAndPod: string[]
  /** The ClusterIPs of two Services that have one Pod. */
  let sharedPod: string[]

  const readOutside = async () =>
    (await cluster.exec(OUTSIDE, ['cat', '/run/lab-9/log'], { timeoutMs: 20_000 * timeoutScale() }))
      .stdout

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
    logs.push(await readOutside())
    const read = logs.map((log) => readClientLog(log ?? ''))
    return {
      clients: logs.length,
      answered: read.map(({ answered }) => answered),
      failed: read.flatMap(({ failed }) => failed),
    }
  }

  /**
   * What becomes of two connections of the control plane from one port, which the kernel gives to
   * no other: to the node port of a Pod's node, then to the Pod itself, as a ClusterIP's
   * masqueraded one would.
   */
  async function fromOnePort(port: number) {
    const [node] = await cluster.nodes()
    const command = ['perl', '-e', ONE_PORT, String(port), ...nodePortAndPod]
    return (
      await cluster.exec(node as string, command, { timeoutMs: 20_000 * timeoutScale() })
    ).stdout.split('\n')
  }

  /** What becomes of two connections of a Pod from one port to two Services that have one Pod. */
  async function toOnePod(port: number) {
    const { items } = await client.core.listNamespacedPod({
      namespace: NAMESPACE,
      labelSelector: 'app=traffic,from=pod',
    })
    const name = items.find(({ spec }) => /control-plane/.test(spec?.nodeName ?? ''))?.metadata
      ?.name
    const command = ['perl', '-e', ONE_PORT, String(port), ...sharedPod]
    const place = { namespace: NAMESPACE, name: name ?? '' }
    return (
      await execInPod(client, place, command, { timeoutMs: 20_000 * timeoutScale() })
    ).stdout.split('\n')
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
    await bench.apply(`${MANIFESTS}/services.yaml`)
    const [web] = await bench.pods('web')
    nodePortAndPod = [`${web?.status?.hostIP}:30090`, `${web?.status?.podIP}:80`]
    const labels = { 'only-this': 'pod' }
    await client.core.patchNamespacedPod({
      namespace: NAMESPACE,
      name: web?.metadata?.name ?? '',
      body: [{ op: 'add', path: '/metadata/labels/only-this', value: 'pod' }],
    })
    sharedPod = []
    for (const name of ['left', 'right']) {
      await bench.create('Service', name, labels, {
        spec: { selector: labels, ports: [{ port: 80 }] },
      })
      sharedPod.push(`${(await bench.service(name)).clusterIP}:80`)
    }
    // On a node without an endpoint, stock answers only in IPVS mode.
    const pod = from === 'ipvs' ? 'orders stock' : 'orders'
    const data = { pod, node: 'orders own-node:30090' }
    await bench.create('ConfigMap', 'traffic', { app: 'traffic' }, { data })
    await cluster.synced?.(20_000)
    await bench.apply(`${MANIFESTS}/traffic.yaml`)
    await Promise.all([
      bench.rolledOut('DaemonSet', 'traffic-pod'),
      bench.rolledOut('DaemonSet', 'traffic-node'),
      startOutside(bench),
    ])
    await waitFor('requests of every client', 20_000, async () =>
      (await traffic()).answered.every((count) => count > 10),
    )
    shell = new FenceShell(projectRoot, learnerEnvironment(cluster.name))
  })
  afterAll(async () => {
    shell?.end()
    vi.unstubAllEnvs()
    await cluster.down(silent)
  })

  test.skipIf(skipped)(
    'a port that is in use at a node port is lost for the Pod in IPVS mode only',
    async () => {
      const second = from === 'ipvs' ? 'lost' : 'answered'
      expect(await fromOnePort(20_001)).toEqual(['answered', second, ''])
    },
    30_000,
  )

  test.skipIf(skipped)(
    'of two connections from one port to two Services with one Pod, the first is lost in IPVS mode only',
    async () => {
      const first = from === 'ipvs' ? 'lost' : 'answered'
      expect(await toOnePod(20_001)).toEqual([first, 'answered', ''])
    },
    30_000,
  )

  test.skipIf(skipped || to !== 'nftables')(
    'a connection that waits for the rules leaves no untranslated entry behind',
    async () => {
      const gap = /^GAP='(.+)'$/m.exec(readFileSync(PAGE, 'utf8'))?.[1] ?? ''
      const [node = ''] = await cluster.nodes()
      const run = async (command: string) =>
        (await cluster.exec(node, ['sh', '-c', command], { timeoutMs: 20_000 * timeoutScale() }))
          .stdout
      const entries = async (port: number) => {
        await run(`curl -s -m 1 $(hostname -i | cut -d' ' -f1):${port}`)
        return run(`conntrack -L -p tcp --orig-port-dst ${port} 2>/dev/null`)
      }
      await run(`nft '${gap}'`)
      expect(await entries(32_001)).toBe('')
      await run('nft flush chain ip handover own')
      expect(await entries(32_002)).toContain('[UNREPLIED]')
      await run('nft delete table ip handover')
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
        async () => sum((await traffic()).answered) > sum(before.answered) + 60,
      )
      const { clients, failed, answered } = await traffic()
      expect(failed).toEqual([])
      expect(clients).toBe(7)
      expect(await fromOnePort(20_002)).toEqual(['answered', 'answered', ''])
      expect(await toOnePod(20_002)).toEqual(['answered', 'answered', ''])
      console.log(`${from} to ${to}: ${sum(answered)} requests answered`)
    },
    300_000,
  )
})
