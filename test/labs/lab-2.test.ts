// Lab 2 end to end on the embedded cluster: fails unsolved, passes solved, fails again for each
// single breakage.

import { describe, expect, test } from 'vitest'
import { configOf } from '../../grading/evaluate.ts'
import { findService, webService } from '../../grading/expect-object.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { waitFor } from '../../host/wait.ts'
import { deleteRule } from './breakage.ts'
import { type BreakageEnvironment, breakages } from './lab-2-breakages.ts'
import { objectChanges } from './lab-2-object-changes.ts'
import { LabTest, passed, testUnsolved, verdictsOf } from './own-cluster.ts'

/** Steps that are judged from state alone, quickly, beside the one that a breakage is about. */
const quickSteps = ['ipvs', 'kube-ipvs0', 'sets', 'prerouting', 'virtual-servers', 'postrouting']
const requestSteps = ['node-port', 'pod-to-service', 'masquerade', 'conntrack']

const own = await LabTest.of(2)
let environment: BreakageEnvironment

testUnsolved(own)

test('solved by the reference solution: every step passes, one by one and all together', async () => {
  const snapshot = await own.expectSolved()
  const { address, backends } = webService(snapshot)
  const clientNode = snapshot.find('Pod', 'default', 'client')?.spec?.nodeName ?? ''
  const nodePort = findService(snapshot, 'web-np')?.ports[0]?.nodePort ?? 0
  const { address: backend = '', node: backendNode = '' } = backends[0] ?? {}
  const { scheduler } = configOf(snapshot).ipvs
  environment = {
    node: 'lab-2-test-worker2',
    web: address,
    backend,
    backendNode,
    nodePort,
    clientNode,
    scheduler,
  }
})

/**
 * Judges a step, and those that are judged quickly beside it, on what a breakage of this node can
 * show; steps that send requests need all the nodes.
 */
async function judged(step: string, node: string): Promise<StepOutcome | undefined> {
  const only = [...new Set([...quickSteps, step])]
  const snapshot = requestSteps.includes(step) ? await own.snapshot() : await own.snapshotOf([node])
  return (await judgeRound(own.spec, snapshot, own.source.live, only)).find(({ id }) => id === step)
}

describe('one thing broken on one node', () => {
  test.each(breakages)(
    '$what: $step fails',
    async ({ at, step, eitherEnd, break: breakIt, repair }) => {
      const { clientNode, backendNode } = environment
      const node =
        at === undefined ? environment.node : { client: clientNode, backend: backendNode }[at]
      const there = { ...environment, node }
      const restore = repair && { repair: repair(there) }
      const outcome = await own.whileBroken(node, breakIt(there), () => judged(step, node), restore)
      expect(outcome?.verdict).toBe('failed')
      if (!eitherEnd) expect(outcome?.failure?.node).toBe(node)
    },
  )

  test('afterwards every step passes again', async () => {
    const { outcomes } = await judge(own.spec, own.source)
    expect(verdictsOf(outcomes)).toEqual(passed(own.lab.steps))
  })
})

describe('what the text says about causes', () => {
  const request = (options: string, url: string) =>
    `curl -s -o /dev/null -w '%{http_code} ' --max-time 2 ${options} ${url} || true; `

  test('an old REJECT rule in filter rejects requests of Pods and other machines to a node port, and none to a ClusterIP', async () => {
    const { web, nodePort, clientNode } = environment
    const address = (await own.bench.nodes()).find(({ name }) => name === clientNode)?.address ?? ''
    // The jumps and rules that iptables mode writes for a Service without endpoints (proxier.go,
    // filter table).
    const leftovers = [
      'iptables -N OLD-SERVICES; iptables -N OLD-EXTERNAL',
      'for CHAIN in OUTPUT FORWARD; do iptables -A $CHAIN -m conntrack --ctstate NEW -j OLD-SERVICES; done',
      'for CHAIN in INPUT FORWARD; do iptables -A $CHAIN -m conntrack --ctstate NEW -j OLD-EXTERNAL; done',
      `iptables -A OLD-SERVICES -d ${web} -p tcp --dport 80 -j REJECT`,
      `iptables -A OLD-EXTERNAL -m addrtype --dst-type LOCAL -p tcp --dport ${nodePort} -j REJECT`,
    ]
    const answers = await own.whileBroken(clientNode, leftovers.join('; '), async () => ({
      pod: await own.bench.inPod('client', request('', web)),
      node: await own.bench.onNode(clientNode, request('', web)),
      outside: await own.bench.onNode('outside', request('', `${address}:${nodePort}`)),
      podToNodePort: await own.bench.inPod('client', request('', `${address}:${nodePort}`)),
      nodeToNodePort: await own.bench.onNode(clientNode, request('', `${address}:${nodePort}`)),
    }))
    expect(answers).toEqual({
      pod: '200 ',
      node: '200 ',
      outside: '000 ',
      podToNodePort: '000 ',
      nodeToNodePort: '200 ',
    })
  })

  test('requests to a ClusterIP never pass FORWARD, the replies to a Pod do', async () => {
    const { web, clientNode } = environment
    const { core } = own.bench.client
    const { status } = await core.readNamespacedPod({ namespace: 'default', name: 'client' })
    const address = status?.podIP
    const count = (match: string) =>
      `iptables -t mangle -A FORWARD -p tcp ${match} -m comment --comment forwarded`
    const rules = [count(`-s ${address}`), count(`-d ${address} --tcp-flags SYN,ACK SYN,ACK`)].join(
      '; ',
    )
    const counted = await own.whileBroken(clientNode, rules, async () => {
      await own.bench.inPod('client', request('', web).repeat(4))
      return own.bench.onNode(
        clientNode,
        "iptables -t mangle -nvxL FORWARD | awk '/forwarded/ {print $1}'",
      )
    })
    expect(counted.trim().split('\n')).toEqual(['0', '4'])
  })

  test("without its member in KUBE-CLUSTER-IP the node's own request has the ClusterIP as its source: only a Pod of the same node can reply", async () => {
    const { web, backendNode } = environment
    const member = `KUBE-CLUSTER-IP ${web},tcp:80`
    // In turns: lc avoids a Pod to which requests without a reply are still open.
    const schedule = (scheduler: string) => `ipvsadm -E -t ${web}:80 -s ${scheduler}`
    let statuses = ''
    const client = await own.whileBroken(
      backendNode,
      `ipset del ${member}; ${schedule('rr')}`,
      () =>
        own.bench.clientInLogs('web', async (mark) => {
          statuses = await own.bench.onNode(backendNode, request('', `${web}/?${mark}`).repeat(6))
        }),
      { save: 'ipset save', repair: `ipset add ${member}; ${schedule('lc')}` },
    )
    expect(client).toBe(web)
    expect([...new Set(statuses.trim().split(' '))].sort()).toEqual(['000', '200'])
  })

  // The debrief of incident internal-policy, the card of lab 11 and the first question of lab 8
  // name this difference.
  test('internalTrafficPolicy Local refuses on a node without a Pod, and answers there once the Service has a node port', async () => {
    const { clientNode } = environment
    const { backends } = webService(await own.snapshot())
    const { pod: far = '' } = backends.find(({ node }) => node !== clientNode) ?? {}
    const labels = { only: 'far' }
    await own.bench.patch('Pod', far, { metadata: { labels } })
    const spec = { selector: labels, internalTrafficPolicy: 'Local', ports: [{ port: 80 }] }
    await own.bench.create('Service', 'far', {}, { spec })
    const address = findService(await own.snapshot(), 'far')?.clusterIPs[0] ?? ''
    const ask = `curl -s -o /dev/null -w '%{exitcode}' --max-time 2 ${address} || true`
    const answers = async () => [
      await own.bench.inPod('client', ask),
      await own.bench.onNode(clientNode, ask),
    ]
    const servers = async (lines: string) =>
      waitFor(
        'the virtual server',
        20_000,
        async () =>
          (await own.bench.onNode(clientNode, `ipvsadm -Sn | grep -c ${address} || true`)) ===
          `${lines}\n`,
      )
    await servers('1')
    expect(await answers()).toEqual(['7', '7'])
    await own.bench.patch('Service', 'far', { spec: { type: 'NodePort' } })
    await servers('2')
    expect(await answers()).toEqual(['0', '0'])
    await own.bench.delete('Service', 'far')
    await own.bench.patch('Pod', far, { metadata: { labels: { only: null } } })
  })

  test('without the hairpin rule the kernel of the Pod drops its own request as a martian source', async () => {
    const { web, backendNode } = environment
    const { pod: backendPod = '' } = webService(await own.snapshot()).backends[0] ?? {}
    const look = "awk 'NR == 2 { print $8 }' /proc/net/stat/rt_cache; "
    const script = `${look}${request('', web).repeat(4)}echo; ${look}`
    const broken = deleteRule('KUBE-POSTROUTING', 'KUBE-LOOP-BACK')
    const output = await own.whileBroken(backendNode, broken, () =>
      own.bench.inPod(backendPod, script),
    )
    const [before = '', statuses = '', after = ''] = output.trim().split('\n')
    expect(statuses).toContain('000')
    expect(Number.parseInt(after, 16)).toBeGreaterThan(Number.parseInt(before, 16))
  })
})

describe('an object of the cluster changed', () => {
  test.each(objectChanges)('$what: $step fails', async ({ step, break: breakIt, repair }) => {
    await breakIt(own.bench)
    try {
      await waitFor(
        'the step to fail',
        20_000,
        async () => (await own.judged(step))?.verdict === 'failed',
      )
    } finally {
      await repair(own.bench)
    }
    await waitFor(
      'the step to pass again',
      60_000,
      async () => (await own.judged(step))?.verdict === 'passed',
    )
  })
})
