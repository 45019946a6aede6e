// Lab 1 end to end on the embedded cluster: fails unsolved, passes solved, fails again for each single breakage.

import { describe, expect, test } from 'vitest'
import { webChain } from '../../checks/01-iptables/service-chains.ts'
import { findService, webService } from '../../grading/expect-object.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { waitFor } from '../../host/wait.ts'
import { type BreakageEnvironment, breakages } from './lab-1-breakages.ts'
import { LabTest, passed, RESTORE, testUnsolved, verdictsOf } from './own-cluster.ts'

const own = await LabTest.of(1)
let solved: Snapshot
let environment: Omit<BreakageEnvironment, 'node'>

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
  const other = outcomes.filter(({ verdict }) => verdict !== 'passed').map(({ id, verdict }) => [id, verdict])
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

/** Judges a step on what a breakage of this node can show; the step that sends requests needs all the nodes. */
const judged = async (step: string, node: string) =>
  own.judged(step, step === 'three-ways' ? await own.snapshot() : await own.snapshotOf([node]))

describe('one thing broken on one node', () => {
  const nodeOf = (pod: string) => solved.find('Pod', 'default', pod)?.spec?.nodeName ?? ''
  const nodeWithout = (pod: string) => solved.nodes.find(({ name }) => name !== nodeOf(pod))?.name ?? ''

  test.each(breakages)('$what: $step fails', async ({ at, step, break: breakIt, repair }) => {
    const node = at === 'other' ? nodeWithout('client') : nodeOf(at)
    const there = { ...environment, node }
    const restore = `${RESTORE}\n${repair?.(there) ?? ''}`
    const outcome = await own.whileBroken(node, breakIt(there), () => judged(step, node), { repair: restore })
    expect(outcome?.verdict).toBe('failed')
    expect(outcome?.failure?.node).toBe(node)
  })

  test('afterwards every step passes again', async () => {
    const { outcomes } = await judge(own.spec, own.source)
    expect(verdictsOf(outcomes)).toEqual(passed(own.lab.steps))
  })
})
