// Every change that the migration report predicts really happens to real packets, and nothing else
// does.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { EmbeddedCluster } from '../../cluster/embedded.ts'
import { type KubeClient, kubeClient } from '../../cluster/kube-client.ts'
import { flushNat } from '../../cluster/kube-proxy/flush-nat.ts'
import { switchMode } from '../../cluster/kube-proxy/switch-mode.ts'
import { takeCapture } from '../../cluster/snapshot.ts'
import { LabBench } from '../../course/lab-bench.ts'
import { clusterConfig, type KubeProxyMode } from '../../dataplane/kube-proxy/config.ts'
import { compareAnswers } from '../../dataplane/migration/compare-answers.ts'
import { comparedNodes } from '../../dataplane/migration/compare-nodes.ts'
import { type ProbeAnswer, probeAnswers } from '../../dataplane/migration/probe-answer.ts'
import { type MigrationProbe, migrationProbes } from '../../dataplane/migration/probes.ts'
import { type ClusterObjects, readObjects } from '../../dataplane/objects.ts'
import { hostKernelTrouble, type KernelName } from '../../embedded/index.ts'
import { openCluster } from '../../grading/live-cluster.ts'
import { answersIn, fromNode, fromOutside, fromPod, sendMarked } from '../../grading/requests.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { silent } from '../../host/progress.ts'
import { timeoutScale, waitFor } from '../../host/wait.ts'

const VERSION = 'v1.34'
/** With two endpoints, one of them gets none of twelve requests once in two thousand times. */
const TIMES = 12
const EXTERNAL_IP = '203.0.113.80'
const BALANCED_IP = '203.0.113.90'

const podOf = (name: string, nodeName: string, image: string) => ({
  kind: 'Pod',
  name,
  labels: { app: image === 'nginx' ? 'web' : 'client' },
  body: {
    spec: {
      nodeName,
      terminationGracePeriodSeconds: 1,
      containers: [
        { name: 'main', image, ...(image !== 'nginx' && { command: ['sleep', 'infinity'] }) },
      ],
    },
  },
})

const service = (name: string, more: object) => {
  const spec = { selector: { app: 'web' }, type: 'NodePort', ports: [{ port: 80, targetPort: 80 }] }
  return { kind: 'Service', name, labels: { app: 'web' }, body: { spec: { ...spec, ...more } } }
}

const SERVICES = [
  service('web', { externalIPs: [EXTERNAL_IP] }),
  service('web-local', { externalTrafficPolicy: 'Local' }),
  service('web-here', { internalTrafficPolicy: 'Local' }),
  service('web-balanced', {
    type: 'LoadBalancer',
    loadBalancerClass: 'example.com/by-hand',
    externalTrafficPolicy: 'Local',
  }),
  service('web-none', { selector: { app: 'none' } }),
]

/** What clients noticed: the endpoints, whose address each saw, and how requests failed. */
interface Noticed {
  endpoints: string[]
  seen: string[]
  failures: string[]
}

describe.each<[KernelName, KubeProxyMode, KubeProxyMode]>([
  ['uml', 'iptables', 'ipvs'],
  ['host', 'iptables', 'nftables'],
])('on the kernel %s, from %s to %s mode and back', (kernel, from, to) => {
  const skipped = kernel === 'host' && hostKernelTrouble() !== undefined
  const cluster = new EmbeddedCluster(`migration-${kernel}`)
  const [plane, worker, worker2] = ['control-plane', 'worker', 'worker2'].map(
    (role) => `${cluster.name}-${role}`,
  ) as [string, string, string]
  let client: KubeClient
  let source: Awaited<ReturnType<typeof openCluster>>

  beforeAll(async () => {
    if (skipped) return
    vi.stubEnv('KERNEL', kernel)
    await cluster.up(silent)
    client = await kubeClient(cluster)
    source = await openCluster(cluster)
    const bench = await LabBench.open(cluster, silent)
    // The kernel sends one rejection a second to each host, and the test sends many requests at
    // once.
    for (const node of [plane, worker, worker2])
      await cluster.exec(node, ['sysctl', '-qw', 'net.ipv4.icmp_ratelimit=0'])
    const pods = [
      podOf('web-1', worker, 'nginx'),
      podOf('web-2', worker2, 'nginx'),
      podOf('client-0', plane, 'nicolaka/netshoot'),
      podOf('client-1', worker, 'nicolaka/netshoot'),
    ]
    for (const { kind, name, labels, body } of [...pods, ...SERVICES])
      await bench.create(kind, name, labels, body)
    const body = { status: { loadBalancer: { ingress: [{ ip: BALANCED_IP }] } } }
    const balanced = { namespace: 'default', name: 'web-balanced' }
    await client.core.patchNamespacedServiceStatus({ ...balanced, body }, client.mergePatch)
    await cluster.synced(10_000)
    await waitFor('the Pods', 30_000, async () => {
      const { items } = await client.core.listNamespacedPod({ namespace: 'default' })
      return items.every(({ status }) => status?.containerStatuses?.[0]?.ready === true)
    })
  })
  afterAll(async () => {
    vi.unstubAllEnvs()
    await cluster.down(silent)
  })

  const objectsNow = async (): Promise<ClusterObjects> =>
    readObjects((await takeCapture(cluster, client)).objects).objects

  async function addressOf(name: string): Promise<string> {
    const { status } = await client.core.readNamespacedPod({ namespace: 'default', name })
    return status?.podIP ?? ''
  }

  /** The probes of a node, with the addresses of the clients that there are. */
  async function realProbes(objects: ClusterObjects, node: string, clientPod: string) {
    const side = (mode: KubeProxyMode) => ({ mode, version: VERSION })
    const [compared] = comparedNodes(objects, side(from), side(to), {
      config: clusterConfig(objects),
      nodes: [node],
    })
    if (!compared) throw new Error(`${node} is not compared`)
    const outside = (await cluster.exec(OUTSIDE, ['hostname', '-I'])).stdout.split(' ')[0]
    const clients: Partial<Record<string, string>> = { pod: await addressOf(clientPod), outside }
    const probes = migrationProbes(objects, compared.after.proxier)
      .filter(
        ({ port, packet }) =>
          (port === undefined || port.name.startsWith('default/web')) && packet.protocol === 'tcp',
      )
      .map((probe): MigrationProbe => {
        const real = clients[probe.client]
        return real === undefined ? probe : { ...probe, packet: { ...probe.packet, source: real } }
      })
    return { compared, probes }
  }

  /** Sends real requests for each probe. */
  async function notice(node: string, clientPod: string, probes: readonly MigrationProbe[]) {
    const { items } = await client.core.listNamespacedPod({ namespace: 'default' })
    const backends = items
      .filter(({ metadata }) => metadata?.labels?.app === 'web')
      .map(({ metadata, spec, status }) => {
        return {
          pod: metadata?.name ?? '',
          node: spec?.nodeName ?? '',
          address: status?.podIP ?? '',
        }
      })
    const { live } = source
    const requesters = {
      node: fromNode(node),
      pod: fromPod(clientPod, { address: '', node }),
      outside: fromOutside,
      endpoint: fromPod('web-1', { address: '', node }),
    }
    const nodeIP = items.find(({ metadata }) => metadata?.name === clientPod)?.status?.hostIP
    const reached = ['10.96.0.0/16', `${EXTERNAL_IP}/32`, `${BALANCED_IP}/32`]
    const routes = reached.map((to) => `ip route replace ${to} via ${nodeIP}`).join('\n')
    await cluster.exec(OUTSIDE, ['sh', '-c', routes])
    const noticed = new Map<MigrationProbe, Noticed>()
    for (const [name, requester] of Object.entries(requesters)) {
      const own = probes.filter(({ client }) => client === name)
      const requests = own.map(({ packet: { destination, port } }) => ({
        address: destination,
        port,
        times: TIMES,
        seconds: 3,
      }))
      const { answered, logs } = await sendMarked(live, requester, { backends }, requests)
      const logged = await logs()
      for (const [index, probe] of own.entries()) {
        const lines = logged[index]?.logged ?? []
        const failed = answered[index]?.replies.filter(({ status }) => status !== 200) ?? []
        noticed.set(probe, {
          endpoints: [...new Set(lines.map(({ backend }) => `${backend.address}:80`))].sort(),
          seen: [
            ...new Set(lines.map(({ backend, client }) => `${backend.address}:80 ${client}`)),
          ].sort(),
          failures: [
            ...new Set(failed.map(({ code, error }) => (code === 28 ? 'timeout' : error))),
          ],
        })
        if (answersIn({ replies: answered[index]?.replies ?? [] }).length > lines.length)
          throw new Error('the logs lack requests')
      }
    }
    return noticed
  }

  /**
   * What a client notices as the prediction's words; whose address was seen comes from the node's
   * own addresses.
   */
  function asPredicted(
    { endpoints, seen, none }: ProbeAnswer,
    { packet }: MigrationProbe,
    own: readonly string[],
    noticed: Noticed,
  ) {
    const ofNode = (address: string) => own.includes(address)
    const who = (address: string) =>
      ofNode(address)
        ? 'node'
        : address === packet.source
          ? 'client'
          : address === packet.destination
            ? 'service'
            : address
    return {
      predicted: {
        endpoints: [...endpoints.keys()].sort(),
        seen: [...seen].map(([to, who]) => `${to} ${who}`).sort(),
        failures: [...none.keys()].map((kind) =>
          kind === 'refused' ? 'Connection refused' : 'none',
        ),
      },
      real: {
        endpoints: noticed.endpoints,
        seen: [
          ...new Set(
            noticed.seen.map((line) => `${line.split(' ')[0]} ${who(line.split(' ')[1] ?? '')}`),
          ),
        ].sort(),
        failures: noticed.failures.map((error) =>
          error === 'Connection refused' ? error : 'none',
        ),
      },
    }
  }

  /**
   * The probes of a node that fare otherwise than predicted, each time that they were sent: of
   * twelve connections a random choice can leave out an endpoint, and a busy machine can delay an
   * answer.
   */
  async function wrongClaims(
    objects: ClusterObjects,
    mode: KubeProxyMode,
    { node, clientPod }: { node: string; clientPod: string },
  ): Promise<string[]> {
    const { compared, probes } = await realProbes(objects, node, clientPod)
    const { state } = mode === from ? compared.before : compared.after
    const answer = probeAnswers(objects, node, state)
    const own = state.links
      .filter(({ name }) => name !== 'kube-ipvs0')
      .flatMap(({ addresses }) => addresses.map(({ address }) => address))
    let wrong = probes
    let texts: string[] = []
    for (let attempt = 1; attempt <= 3 && wrong.length > 0; attempt++) {
      const noticed = await notice(node, clientPod, wrong)
      texts = []
      wrong = wrong.filter((probe) => {
        const found = noticed.get(probe) ?? { endpoints: [], seen: [], failures: ['not sent'] }
        const { predicted, real } = asPredicted(answer(probe.packet), probe, own, found)
        const [claim, fact] = [predicted, real].map((one) => JSON.stringify(one))
        const { client, target, packet, port } = probe
        if (claim !== fact)
          texts.push(
            `${mode} ${node} ${client} to ${target} ${port?.name} ${packet.destination}:${packet.port}: ${claim} but ${fact}`,
          )
        return claim !== fact
      })
    }
    return texts
  }

  /** The mode in which nothing of another one is left. */
  let clean: KubeProxyMode | undefined
  const change = (mode: KubeProxyMode) => {
    clean = undefined
    return switchMode(cluster, mode, { progress: silent })
  }
  const put = async (mode: KubeProxyMode) => {
    if (mode === clean) return
    await change(mode)
    await flushNat(cluster, { progress: silent })
    await cluster.synced(10_000)
    clean = mode
  }

  test.skipIf(skipped)(
    'real requests fare as traced, before and after',
    async () => {
      const objects = await objectsNow()
      const changed = { happens: 0, stays: 0 }
      const places = [
        { node: worker, clientPod: 'client-1' },
        { node: plane, clientPod: 'client-0' },
      ]
      for (const mode of [from, to] as KubeProxyMode[]) {
        await put(mode)
        for (const place of places) expect(await wrongClaims(objects, mode, place)).toEqual([])
      }
      for (const place of places) {
        const { compared, probes } = await realProbes(objects, place.node, place.clientPod)
        const [before, after] = [compared.before, compared.after].map(({ state }) =>
          probeAnswers(objects, place.node, state),
        ) as [ReturnType<typeof probeAnswers>, ReturnType<typeof probeAnswers>]
        for (const { packet } of probes)
          changed[compareAnswers(before(packet), after(packet)).length > 0 ? 'happens' : 'stays']++
      }
      expect(changed.happens).toBeGreaterThanOrEqual(8)
      expect(changed.stays).toBeGreaterThanOrEqual(20)
    },
    240_000,
  )

  /**
   * Opens a connection from the node to web, does something, and says whether the connection still
   * answers.
   */
  async function isKept(change: () => Promise<unknown>): Promise<boolean> {
    const web = await client.core.readNamespacedService({ namespace: 'default', name: 'web' })
    const program = readFileSync(join(import.meta.dirname, 'kept-connection.pl'), 'utf8')
    const [log, go] = ['/tmp/kept.log', '/tmp/kept.go']
    const run = (script: string, ...args: string[]) =>
      cluster.exec(worker, ['sh', '-c', script, 'sh', ...args], {
        timeoutMs: 20_000 * timeoutScale(),
      })
    await run(
      `rm -f ${log} ${go}; setsid perl -e "$1" "$2" 80 ${go} >${log} 2>&1 &`,
      program,
      web.spec?.clusterIP ?? '',
    )
    const lineOf = async () => (await run(`cat ${log}`)).stdout.trim().split('\n').at(-1)
    await waitFor('the first answer', 10_000, async () => (await lineOf()) === 'first')
    await change()
    await run(`touch ${go}`)
    await waitFor('the second answer', 10_000, async () => (await lineOf()) !== 'first')
    return (await lineOf()) === 'second'
  }

  test.skipIf(skipped)(
    'connections that exist fare as the report says',
    async () => {
      const kept: Record<string, boolean> = {}
      // The test before ends in the mode `to`.
      for (const [old, next] of [
        [to, from],
        [from, to],
      ] as const) {
        await put(old)
        kept[`${old} to ${next}`] = await isKept(() => change(next))
        await put(old)
        kept[`${old} to ${next}, cleaned up`] = await isKept(() => put(next))
      }
      expect(kept).toEqual({
        [`${from} to ${to}`]: true,
        [`${from} to ${to}, cleaned up`]: true,
        [`${to} to ${from}`]: true,
        [`${to} to ${from}, cleaned up`]: to !== 'ipvs',
      })
    },
    240_000,
  )
})
