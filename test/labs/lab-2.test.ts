// Lab 2 end to end on the embedded cluster: fails unsolved, passes solved, fails again for each single breakage.

import { describe, expect, test } from 'vitest'
import { configOf } from '../../grading/evaluate.ts'
import { findService, webService } from '../../grading/expect-object.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { waitFor } from '../../host/wait.ts'
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
  environment = { node: 'lab-2-test-worker2', web: address, backend, backendNode, nodePort, clientNode, scheduler }
})

/** Judges a step, and those that are judged quickly beside it, on what a breakage of this node can show; steps that send requests need all the nodes. */
async function judged(step: string, node: string): Promise<StepOutcome | undefined> {
  const only = [...new Set([...quickSteps, step])]
  const snapshot = requestSteps.includes(step) ? await own.snapshot() : await own.snapshotOf([node])
  return (await judgeRound(own.spec, snapshot, own.source.live, only)).find(({ id }) => id === step)
}

describe('one thing broken on one node', () => {
  test.each(breakages)('$what: $step fails', async ({ at, step, eitherEnd, break: breakIt, repair }) => {
    const { clientNode, backendNode } = environment
    const node = at === undefined ? environment.node : { client: clientNode, backend: backendNode }[at]
    const there = { ...environment, node }
    const restore = repair && { repair: repair(there) }
    const outcome = await own.whileBroken(node, breakIt(there), () => judged(step, node), restore)
    expect(outcome?.verdict).toBe('failed')
    if (!eitherEnd) expect(outcome?.failure?.node).toBe(node)
  })

  test('afterwards every step passes again', async () => {
    const { outcomes } = await judge(own.spec, own.source)
    expect(verdictsOf(outcomes)).toEqual(passed(own.lab.steps))
  })
})

describe('an object of the cluster changed', () => {
  test.each(objectChanges)('$what: $step fails', async ({ step, break: breakIt, repair }) => {
    await breakIt(own.bench)
    try {
      await waitFor('the step to fail', 20_000, async () => (await own.judged(step))?.verdict === 'failed')
    } finally {
      await repair(own.bench)
    }
    await waitFor('the step to pass again', 60_000, async () => (await own.judged(step))?.verdict === 'passed')
  })
})
