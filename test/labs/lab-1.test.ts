// Lab 1 end to end on the embedded cluster: fails unsolved, passes solved, fails again for each
// single breakage.

import { describe, expect, test } from 'vitest'
import { webChain } from '../../checks/01-iptables/service-chains.ts'
import { findService, webService } from '../../grading/expect-object.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { waitFor } from '../../host/wait.ts'
import { deleteRules } from './breakage.ts'
import { type BreakageEnvironment, breakages } from './lab-1-breakages.ts'
import { LabTest, passed, RESTORE, testUnsolved, verdictsOf } from './own-cluster.ts'

const own = await LabTest.of(1)
let solved: Snapshot
let environment: Omit<BreakageEnvironment, 'node'>

const nodeOf = (pod: string) => solved.find('Pod', 'default', pod)?.spec?.nodeName ?? ''

testUnsolved(own, 'KUBE-SVC-AAAAAAAAAAAAAAAA')

test('solved by the reference solution: every step passes, one by one and all together', async () => {
  solved = await own.expectSolved()
  const clusterIP = (name: string) => findService(solved, name)?.clusterIPs[0] ?? ''
  environment = {
    web: webService(solved).address,
    mirror: clusterIP('mirror'),
    nobody: clusterIP('nobody'),
    threePorts: clusterIP('three-ports'),
    webChain: webChain(solved),
  }
})

test('the capture of the solved cluster earns what needs no cluster', async () => {
  const outcomes = await judgeRound(own.spec, await own.snapshot(), undefined)
  const other = outcomes
    .filter(({ verdict }) => verdict !== 'passed')
    .map(({ id, verdict }) => [id, verdict])
  expect(other).toEqual([['families', 'not applicable']])
})

test('a wrong answer afterwards takes nothing away, and the cluster may move on', async () => {
  await own.bench.answer(1, 'probability', '1')
  await own.bench.scale('web', 2)
  expect((await own.judged('probability'))?.verdict).toBe('passed')
  await own.bench.scale('web', 1)
  expect((await judge(own.spec, own.source, { only: ['web'] })).outcomes[0]?.verdict).toBe('failed')
  await own.bench.scale('web', 5)
  await waitFor('every node to follow', 20_000, async () => {
    const { outcomes } = await judge(own.spec, own.source, { only: ['web', 'chains'] })
    return outcomes.every(({ verdict }) => verdict === 'passed')
  })
})

describe('causal sentences of the text', () => {
  const firstJump = async () =>
    (await own.bench.onNode(nodeOf('client'), `iptables -t nat -S ${environment.webChain}`))
      .split('\n')
      .find((line) => line.includes('-j KUBE-SEP-'))

  test('without the mark for hairpins the Pod drops its own request as a martian', async () => {
    const request = `curl -s -o /dev/null --max-time 1 http://${environment.mirror} || true`
    // The eighth column is in_martian_src, in hexadecimal, one line for each processor.
    const count = "awk 'NR > 1 {print $8}' /proc/net/stat/rt_cache"
    const martians = async () => {
      const columns = (await own.bench.inPod('mirror', count)).trim().split('\n')
      return columns.reduce((sum, text) => sum + Number.parseInt(text, 16), 0)
    }
    const before = await martians()
    await own.bench.inPod('mirror', request)
    expect(await martians()).toBe(before)
    const unmark = deleteRules('nat', '-A KUBE-SEP-.*default/mirror.*KUBE-MARK-MASQ')
    await own.whileBroken(nodeOf('mirror'), unmark, () => own.bench.inPod('mirror', request))
    expect(await martians()).toBeGreaterThan(before)
  })

  test("a Pod's request needs no route to the ClusterIP, a node's own one needs any, for its first routing decision", async () => {
    const node = nodeOf('client')
    const ask = `curl -s -o /dev/null -w '%{http_code}' --max-time 2 http://${environment.web} || true`
    const answers = await own.whileBroken(
      node,
      'ip route show default >/run/default; ip route del default',
      async () => [await own.bench.inPod('client', ask), await own.bench.onNode(node, ask)],
      { save: 'ip route', repair: 'ip route add $(cat /run/default)' },
    )
    expect(answers).toEqual(['200', '000'])
  })

  test('a deleted rule outlives syncs for other Services, and comes back with a change of its own', async () => {
    const rule = await firstJump()
    await own.bench.onNode(nodeOf('client'), `iptables -t nat -D ${environment.webChain} 2`)
    expect(await firstJump()).not.toBe(rule)
    const selector = { app: 'web' }
    await own.bench.create('Service', 'passing', selector, {
      spec: { selector, ports: [{ port: 8080 }] },
    })
    const entries = `iptables -t nat -S KUBE-SERVICES | grep -c default/passing || true`
    await waitFor(
      'a sync',
      20_000,
      async () => (await own.bench.onNode(nodeOf('client'), entries)).trim() === '1',
    )
    expect(await firstJump()).not.toBe(rule)
    await own.bench.delete('Service', 'passing')
    await own.bench.scale('web', 4)
    await own.bench.scale('web', 5)
    await waitFor('every rule', 20_000, async () => {
      const { outcomes } = await judge(own.spec, own.source, { only: ['web', 'chains', 'whole'] })
      return outcomes.every(({ verdict }) => verdict === 'passed')
    })
  })
})

/**
 * Judges a step on what a breakage of this node can show; the step that sends requests needs all
 * the nodes.
 */
const judged = async (step: string, node: string) =>
  own.judged(step, step === 'three-ways' ? await own.snapshot() : await own.snapshotOf([node]))

describe('one thing broken on one node', () => {
  const nodeWithout = (pod: string) =>
    solved.nodes.find(({ name }) => name !== nodeOf(pod))?.name ?? ''

  test.each(breakages)('$what: $step fails', async ({ at, step, break: breakIt, repair }) => {
    const node = at === 'other' ? nodeWithout('client') : nodeOf(at)
    const there = { ...environment, node }
    const restore = `${RESTORE}\n${repair?.(there) ?? ''}`
    const outcome = await own.whileBroken(node, breakIt(there), () => judged(step, node), {
      repair: restore,
    })
    expect(outcome?.verdict).toBe('failed')
    expect(outcome?.failure?.node).toBe(node)
  })

  test('afterwards every step passes again', async () => {
    const { outcomes } = await judge(own.spec, own.source)
    expect(verdictsOf(outcomes)).toEqual(passed(own.lab.steps))
  })
})
