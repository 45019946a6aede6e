import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { flushNat } from '../../../cluster/kube-proxy/flush-nat.ts'
import { modeLacks } from '../../../cluster/kube-proxy/module-check.ts'
import { parseIpvsadmSave } from '../../../dataplane/ipvsadm-save.ts'
import { writeMode } from '../../../dataplane/kube-proxy/config-conf.ts'
import { describeFlush, planFlush } from '../../../dataplane/kube-proxy/flush.ts'
import { silent } from '../../../host/progress.ts'
import { timeoutScale, waitFor } from '../../../host/wait.ts'
import { ownedRules } from '../../kube-proxy/iptables-proxier.ts'
import {
  controlPlane,
  type NodeName,
  type Running,
  ThreeNodes,
  webIP,
  webPods,
  worker,
  worker2,
} from './three-nodes.ts'

let nodes: ThreeNodes
beforeAll(async () => {
  nodes = await ThreeNodes.start()
})
afterAll(async () => {
  await nodes?.stopProxies()
  await nodes?.stop()
})

const differences = async (node: NodeName, mode: 'iptables' | 'ipvs') =>
  nodes.differences(await nodes.state(node), node, mode)

/** Between two readings of a whole node. */
const readGapMs = 400

const settled = (node: NodeName, mode: 'iptables' | 'ipvs', deadlineMs = 20_000) =>
  waitFor(
    `${node} to hold what is predicted`,
    deadlineMs,
    async () => (await differences(node, mode)).length === 0,
    readGapMs,
  )

const reportsMode = (node: NodeName, mode: 'iptables' | 'ipvs') =>
  waitFor(`${node} to report ${mode} mode`, 20_000, async () =>
    (await nodes.sh(node, 'curl -s http://127.0.0.1:10249/proxyMode')).includes(mode),
  )

/** Between two syncs that nothing but the clock asks for; 30 where the ConfigMap does not say. */
const CLOCK_SECONDS = 8

const ipvsProxies: Running[] = []

const everyNode = [controlPlane, worker, worker2] as const

const virtualServers = async (node: NodeName) =>
  parseIpvsadmSave(await nodes.sh(node, 'ipvsadm -Sn'))
const weights = async (node: NodeName, address: string) =>
  (await virtualServers(node))
    .filter((server) => server.address === address)
    .flatMap(({ realServers }) => realServers.map((real) => `${real.address} ${real.weight}`))
    .sort()

/** The values of a node's metrics, by what follows `kubeproxy_sync_proxy_rules_`. */
async function metricsOf(node: NodeName): Promise<ReadonlyMap<string, number>> {
  const text = await nodes.sh(node, 'curl -s http://127.0.0.1:10249/metrics')
  const lines = [...text.matchAll(/^kubeproxy_sync_proxy_rules_(\S+) (\S+)$/gm)]
  return new Map(lines.map(([, name = '', value]) => [name, Number(value)]))
}

const difference = (
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
  name: string,
) => (after.get(name) ?? Number.NaN) - (before.get(name) ?? Number.NaN)

describe('a kernel that lacks ip_vs', () => {
  const forbid = { path: '/etc/modprobe.d/no-ipvs.conf', content: 'install ip_vs /bin/false\n' }

  test('is reported for every node before anything is changed', async () => {
    await nodes.machine.write([forbid])
    expect(await modeLacks(nodes.cluster(), [worker, worker2], 'ipvs', 'rr')).toBe(
      `the kernel of ${worker} and ${worker2} has no IPVS (module ip_vs)`,
    )
    expect(await modeLacks(nodes.cluster(), [worker], 'iptables', 'rr')).toBeUndefined()
  })

  test("ends kube-proxy in IPVS mode with kube-proxy's message, and no port is open", async () => {
    nodes.configure((text) => writeMode(text, { mode: 'ipvs' }))
    const { container, log } = nodes.startProxy(worker)
    expect(await container.exited).toBe(1)
    expect(log.at(-1)).toContain(
      `"command failed" err="can't use the IPVS proxier: Ipvs not supported by the kernel"`,
    )
    expect(await nodes.sh(worker, 'ss -ltnH')).toBe('')
    nodes.configure((text) => writeMode(text, { mode: 'iptables' }))
  })

  test('once it has the module, has its schedulers, and an unknown one is refused', async () => {
    await nodes.machine.write([{ ...forbid, content: '' }])
    expect(await modeLacks(nodes.cluster(), [worker], 'ipvs', 'wrr')).toBeUndefined()
    expect(await modeLacks(nodes.cluster(), [worker], 'ipvs', 'foo')).toMatch(
      /no IPVS scheduler "foo"/,
    )
    expect(await virtualServers(worker)).toEqual([])
  })
})

describe.sequential('one cluster, iptables, then ipvs, then iptables again', () => {
  test('iptables mode programs what is predicted, on every node', async () => {
    nodes.configure((text) => text.replaceAll('syncPeriod: 0s', `syncPeriod: ${CLOCK_SECONDS}s`))
    const running = await nodes.restartProxies()
    for (const node of everyNode) await settled(node, 'iptables')
    expect(running[0]?.log.join('\n')).toContain('"Using iptables Proxier"')
    expect(await nodes.sh(worker, 'curl -s http://127.0.0.1:10249/proxyMode')).toBe('iptables')
    expect(
      await nodes.sh(
        worker,
        'curl -s -o /dev/null -w %{http_code} http://172.18.0.3:10256/healthz',
      ),
    ).toBe('200')
    const answers = await nodes.ask('client1', webIP, 20)
    expect(Object.keys(answers).sort()).toEqual(['web1', 'web2'])
  })

  test('/metrics counts the rules of the node and each sync, on the loopback interface only', async () => {
    const before = await metricsOf(worker)
    const { iptables } = await nodes.state(worker)
    expect(before.get('iptables_total{ip_family="IPv4",table="nat"}')).toBe(
      ownedRules(iptables).nat,
    )
    // Root of a node may put a pipe where the text is written: rules are programmed and the text is
    // replaced nevertheless.
    await nodes.sh(worker, 'for file in /run/kube-proxy/*.metrics; do mkfifo "$file.new"; done')
    nodes.addService('counted', '10.96.100.105')
    nodes.setEndpoints('counted', [worker2])
    const after = await waitFor('a sync with the Service', 20_000, async () => {
      const now = await metricsOf(worker)
      const added = difference(before, now, 'iptables_total{ip_family="IPv4",table="nat"}')
      return added > 0 ? { now, added } : undefined
    })
    // Its entry, a rule for masquerading, one that chooses the endpoint, and two in its chain.
    expect(after.added).toBe(5)
    const syncs = difference(before, after.now, 'duration_seconds_count{ip_family="IPv4"}')
    const seconds = difference(before, after.now, 'duration_seconds_sum{ip_family="IPv4"}')
    expect(syncs).toBeGreaterThan(0)
    expect(seconds / syncs).toBeGreaterThan(0.001)
    expect(
      difference(before, after.now, 'last_timestamp_seconds{ip_family="IPv4"}'),
    ).toBeGreaterThan(0)
    const status = 'curl -s -o /dev/null -w %{http_code}'
    expect(await nodes.sh(worker, `${status} http://172.18.0.3:10249/metrics || :`)).toBe('000')
  })

  test('a new Service is reachable soon after the change, not only after the next periodic sync', async () => {
    const began = Date.now()
    nodes.addService('fast', '10.96.100.101')
    nodes.setEndpoints('fast', [worker2])
    await waitFor(
      'the Service to answer',
      10_000,
      async () => (await nodes.ask('client1', '10.96.100.101')).web2,
    )
    console.log(`iptables: a new Service answered after ${Date.now() - began} ms`)
    expect(Date.now() - began).toBeLessThan(6000 * timeoutScale())
  })

  test("a rule deleted by hand from a Service's chain, or a jump, is not restored by a sync for another Service", async () => {
    const state = await nodes.state(worker)
    const chain = [...(state.iptables.get('nat')?.keys() ?? [])].find((name) =>
      name.startsWith('KUBE-SEP-'),
    )
    await nodes.sh(
      worker,
      `iptables -t nat -F ${chain}; iptables -D FORWARD 1; iptables -t nat -F KUBE-MARK-MASQ`,
    )
    nodes.addService('other', '10.96.100.102')
    nodes.setEndpoints('other', [worker])
    await waitFor(
      'the Service to answer',
      10_000,
      async () => (await nodes.ask('client1', '10.96.100.102')).web1,
    )
    const left = (await differences(worker, 'iptables')).join('\n')
    expect(left).toContain(chain)
    expect(left).toMatch(/missing.*FORWARD/)
    // A chain that exists once per node is written again by every sync.
    expect(left).not.toContain('KUBE-MARK-MASQ -j MARK')
  })

  test('a chain deleted by hand fails the next restore, and the sync after it repairs everything', async () => {
    await nodes.sh(worker, 'iptables -t nat -F; iptables -t nat -X')
    nodes.setEndpoints('other', [worker, worker2])
    await settled(worker, 'iptables')
  })

  test('in IPVS mode every node has the predicted state, beside the leftovers of iptables mode', async () => {
    nodes.configure((text) => writeMode(text, { mode: 'ipvs' }))
    const running = await nodes.restartProxies()
    ipvsProxies.push(...running)
    for (const node of everyNode) await reportsMode(node, 'ipvs')
    const stale = (lines: string[]) => lines.filter((line) => !line.startsWith('stale'))
    for (const node of everyNode)
      await waitFor(
        node,
        20_000,
        async () => stale(await differences(node, 'ipvs')).length === 0,
        readGapMs,
      )
    const left = await differences(worker, 'ipvs')
    for (const kind of [
      'KUBE-SVC-',
      'KUBE-SEP-',
      'KUBE-EXTERNAL-SERVICES',
      'KUBE-NODEPORTS',
      'KUBE-PROXY-CANARY',
    ])
      expect(left.join('\n')).toContain(kind)
    expect(running[1]?.log.join('\n')).toContain('"Using ipvs Proxier"')
    expect(await nodes.ask('client1', webIP, 20)).toEqual({ web1: 10, web2: 10 })
    expect(await nodes.ask(controlPlane, webIP, 8)).toEqual({ web1: 4, web2: 4 })
  })

  test('the flush removes the leftovers while requests are running, and none fails', async () => {
    const load = nodes.load('client1', webIP, 60)
    const before = planFlush('ipvs', await nodes.state(worker))
    expect(describeFlush(before).length).toBeGreaterThan(0)
    const reports = await flushNat(nodes.cluster(), { progress: silent })
    expect(reports.map(({ removed }) => removed.length > 0)).toEqual([true, true, true])
    for (const node of everyNode) expect(await differences(node, 'ipvs')).toEqual([])
    expect(await load).toEqual({ web1: 30, web2: 30 })
    const again = await flushNat(nodes.cluster(), { progress: silent })
    expect(again.flatMap(({ removed }) => removed)).toEqual([])
  })

  test('in IPVS mode, too, a new Service does not wait for the periodic sync', async () => {
    const began = Date.now()
    nodes.addService('quick', '10.96.100.103')
    nodes.setEndpoints('quick', [worker])
    await waitFor(
      'the Service to answer',
      10_000,
      async () => (await nodes.ask('client2', '10.96.100.103')).web1,
    )
    console.log(`ipvs: a new Service answered after ${Date.now() - began} ms`)
    expect(Date.now() - began).toBeLessThan(6000 * timeoutScale())
  })

  test('the periodic sync repairs changes made by hand and removes foreign virtual servers', async () => {
    // The clock may strike in between.
    await waitFor('the node to be broken', 20_000, async () => {
      await nodes.sh(
        worker,
        `ipvsadm -D -t ${webIP}:80; ipvsadm -A -t 192.0.2.1:80 -s rr; ipset flush KUBE-CLUSTER-IP; ip addr del 10.96.100.103/32 dev kube-ipvs0; iptables -t nat -F KUBE-SERVICES; iptables -D INPUT 1`,
      )
      return (await differences(worker, 'ipvs')).length >= 6
    })
    await settled(worker, 'ipvs')
  })

  test('a real server with an open connection gets weight 0; one without is deleted immediately', async () => {
    // The connection to the first choice of rr stays open while its endpoint is taken away.
    const client = await nodes.machine.spawn(
      ['bash', '-c', `exec 3<>/dev/tcp/${webIP}/80; echo open; cat`],
      {
        netns: 'client1',
      },
    )
    await new Promise((resolve) => client.stdout.once('data', resolve))
    const busy = (await nodes.sh(worker, 'ipvsadm -Ln'))
      .split('\n')
      .find((line) => /-> 10\.244\.\d\.5:80 .* 1 +\d+ *$/.test(line))
    const [, host] = /-> 10\.244\.(\d)\.5/.exec(busy ?? '') ?? []
    const gone = host === '1' ? worker : worker2
    const stays = host === '1' ? worker2 : worker
    nodes.setEndpoints('web', [stays])
    await waitFor('weight 0', 5000, async () =>
      (await weights(worker, webIP)).includes(`${webPods[gone]} 0`),
    )
    // Each node's kube-proxy notices it in its own time.
    await waitFor(
      'no weight where nothing drains',
      5000,
      async () => (await weights(worker2, webIP)).join() === `${webPods[stays]} 1`,
    )
    nodes.setEndpoints('web', [worker, worker2])
    await waitFor(
      'both',
      5000,
      async () =>
        (await weights(worker, webIP)).join() ===
        [`${webPods[worker]} 1`, `${webPods[worker2]} 1`].join(),
    )
    // Its weight is kube-proxy's only while it drained.
    await nodes.sh(worker, `ipvsadm -e -t ${webIP}:80 -r ${webPods[gone]}:80 -m -w 0`)
    nodes.addService('later', '10.96.100.104')
    nodes.setEndpoints('later', [worker])
    await waitFor(
      'the Service',
      5000,
      async () => (await weights(worker, '10.96.100.104')).length === 1,
    )
    expect(await weights(worker, webIP)).toContain(`${webPods[gone]} 0`)
    await nodes.sh(worker, `ipvsadm -e -t ${webIP}:80 -r ${webPods[gone]}:80 -m -w 1`)
    client.stdin.end()
    client.kill('SIGKILL')
    await client.exited
  })

  test('a Service that is deleted and created again while connections are open gets its real servers in the first sync that knows them', async () => {
    const client = await nodes.machine.spawn(
      ['bash', '-c', `exec 3<>/dev/tcp/${webIP}/80; echo open; cat`],
      {
        netns: 'client1',
      },
    )
    await new Promise((resolve) => client.stdout.once('data', resolve))
    const log = ipvsProxies[1]?.log ?? []
    const failures = () => log.filter((line) => line.includes('Failed to sync ipvs rules')).length
    const before = failures()
    const hasServer = async () =>
      (await virtualServers(worker)).some(({ address }) => address === webIP)
    nodes.setEndpoints('web', [])
    await waitFor('weight 0', 5000, async () =>
      /^\S+ 0(,\S+ 0)?$/.test((await weights(worker, webIP)).join()),
    )
    nodes.api.delete('services', 'default', 'web')
    await waitFor('no virtual server', 5000, async () => !(await hasServer()))
    nodes.addService('web', webIP)
    await waitFor('a virtual server', 5000, hasServer)
    nodes.setEndpoints('web', [worker, worker2])
    await waitFor('both', 5000, async () => (await weights(worker, webIP)).length === 2)
    expect(await weights(worker, webIP)).toEqual([`${webPods[worker]} 1`, `${webPods[worker2]} 1`])
    expect(failures()).toBe(before)
    client.stdin.end()
    client.kill('SIGKILL')
    await client.exited
  })

  test('health check node ports return 200 on nodes with endpoints, else 503', async () => {
    nodes.addService('local', '10.96.100.110', {
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 32_100,
    })
    nodes.setEndpoints('local', [worker])
    const code = (host: number) =>
      nodes.sh(
        controlPlane,
        `curl -s --max-time 3 -o /dev/null -w %{http_code} http://172.18.0.${host}:32100/`,
      )
    await waitFor('200 on the worker', 10_000, async () => (await code(3)) === '200')
    // Each kube-proxy opens its port in a sync of its own.
    await waitFor('503 on the other worker', 10_000, async () => (await code(4)) === '503')
    const body = await nodes.sh(controlPlane, 'curl -s http://172.18.0.3:32100/')
    expect(JSON.parse(body)).toMatchObject({
      service: { namespace: 'default', name: 'local' },
      localEndpoints: 1,
    })
  })

  test('back in iptables mode, Services work beside the leftovers of IPVS mode, and the flush removes these under load', async () => {
    nodes.configure((text) => writeMode(text, { mode: 'iptables' }))
    await nodes.restartProxies()
    // Each kube-proxy follows in its own time, and the flush asks all of them.
    for (const node of everyNode) {
      await reportsMode(node, 'iptables')
      const onlyStale = async () =>
        (await differences(node, 'iptables')).every((line) => line.startsWith('stale'))
      await waitFor(`the rules of ${node}`, 20_000, onlyStale, readGapMs)
    }
    const state = await nodes.state(worker)
    expect(state.virtualServers.length).toBeGreaterThan(3)
    expect(state.ipsets.size).toBeGreaterThan(10)
    expect(state.links.map(({ name }) => name)).toContain('kube-ipvs0')
    const load = nodes.load('client1', webIP, 40)
    await flushNat(nodes.cluster(), { progress: silent })
    for (const node of everyNode) expect(await differences(node, 'iptables')).toEqual([])
    expect((await load).none).toBeUndefined()
    expect(await virtualServers(worker)).toEqual([])
  })

  test('an unknown scheduler ends kube-proxy with its message, and the present state is kept', async () => {
    nodes.configure((text) => writeMode(text, { mode: 'ipvs', scheduler: 'foo' }))
    // Each kube-proxy ends in its own time.
    for (const { container, log } of await nodes.restartProxies()) {
      expect(await container.exited).toBe(1)
      expect(log.join('\n')).toContain('"Could not create dummy VS"')
      expect(log.at(-1)).toContain("can't use the IPVS proxier")
    }
    expect((await nodes.ask('client1', webIP, 4)).none).toBeUndefined()
    expect(await nodes.sh(worker, 'curl -s http://127.0.0.1:10249/proxyMode || echo silent')).toBe(
      'silent\n',
    )
  })

  test('an unknown mode ends kube-proxy, too', async () => {
    nodes.configure((text) => text.replace(/^mode: .*$/m, 'mode: magic'))
    for (const { container, log } of await nodes.restartProxies()) {
      expect(await container.exited).toBe(1)
      expect(log.at(-1)).toMatch(
        /command failed.*KubeProxyConfiguration.Mode: Invalid value: .*magic/,
      )
    }
  })
})
