// Lab 2 end to end on the embedded cluster: fails unsolved, passes solved, fails again for each single breakage.

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

/** Judges a step, and those that are judged quickly beside it, on what a breakage of this node can show; steps that send requests need all the nodes. */
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

  test('an old REJECT rule in filter rejects requests to a node port, and none to a ClusterIP', async () => {
    const { web, nodePort, clientNode } = environment
    const address = (await own.bench.nodes()).find(({ name }) => name === clientNode)?.address ?? ''
    // The jumps and rules that iptables mode writes for a Service without endpoints (proxier.go, filter table).
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
    }))
    expect(answers).toEqual({ pod: '200 ', node: '200 ', outside: '000 ' })
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
