// Lab 10 end to end on the embedded cluster: fails unsolved, and step by step: fails broken, passes
// solved. Its steps are about moments, so each is broken while it is solved and the grader has not
// seen it pass.

import { describe, expect, test } from 'vitest'
import { shopClient, shopService } from '../../checks/10-connections/shop.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { allPodsWithLabel } from '../../grading/expect-object.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { timeoutScale, waitFor } from '../../host/wait.ts'
import { type BreakageEnvironment, breakages, LEFT_ENTRY } from './lab-10-breakages.ts'
import { LabTest, passed, testUnsolved, verdictsOf } from './own-cluster.ts'

const own = await LabTest.of(10)
const { lab, spec, solution } = own

testUnsolved(own)

async function readEnvironment(): Promise<BreakageEnvironment> {
  const { service, endpoints, address } = shopService(await own.snapshot())
  const ready = endpoints.find((endpoint) => endpoint.ready)
  const leaving = endpoints.find((endpoint) => endpoint.terminating)
  return {
    ready: ready?.address ?? '',
    leaving: leaving?.address ?? '',
    shop: address,
    healthPort: service.healthCheckNodePort,
  }
}

/** The steps in which deleted Pods of shop wait in their preStop hooks. */
const withDeletedPods = new Set(['terminating', 'local', 'last', 'weight'])
/** Their state is that of the step shop; what they ask for is a count and a connection. */
const asksOnly = new Set(['naive', 'pinned'])

/** Pods with the hook of linger.yaml end minutes later. */
const SOON_SECONDS = 60

/**
 * No other Pod of shop is still ending, and every node holds what follows from the objects:
 * kube-proxy writes nothing.
 */
const settled = (id: string) =>
  waitFor('every node to follow', 40_000, async () => {
    const snapshot = await own.snapshot()
    const ending = allPodsWithLabel(snapshot, 'shop').filter(
      ({ metadata }) => metadata.deletionTimestamp,
    )
    const isSoon = ending.some(
      ({ metadata }) => (metadata.deletionGracePeriodSeconds ?? 0) < SOON_SECONDS,
    )
    if (withDeletedPods.has(id)) return !isSoon
    if (ending.length > 0) return false
    return snapshot.nodes.every((node) => evaluate(node, 'iptables').differences.length === 0)
  })

async function expectFailure({ what, step, atLeaving, ...breakage }: (typeof breakages)[number]) {
  const { break: broken, repair } = breakage
  const snapshot = await own.snapshot()
  const leaving = shopService(snapshot).endpoints.find(({ terminating }) => terminating)
  const name = atLeaving ? (leaving?.node ?? '') : shopClient(snapshot).node.name
  const environment = await readEnvironment()
  const texts = repair && { repair: repair(environment) }
  const outcome = await own.whileBroken(name, broken(environment), () => own.judged(step), texts)
  expect(outcome?.verdict, what).toBe('failed')
  expect(outcome?.failure?.node, what).toBe(name)
}

describe('step by step', () => {
  test.each(lab.steps)(
    '$id: fails unsolved and for each single breakage, passes solved',
    async ({ id }) => {
      expect((await own.judged(id))?.verdict).not.toBe('passed')
      await solution.steps[id]?.play?.(own.bench)
      await settled(id)
      expect(asksOnly.has(id)).toBe(breakages.every(({ step }) => step !== id))
      for (const breakage of breakages) if (breakage.step === id) await expectFailure(breakage)
      const { outcomes } = await judge(spec, own.source, { only: [id] })
      expect(verdictsOf(outcomes)).toEqual(passed([{ id }]))
    },
    120_000 * timeoutScale(),
  )
})

test('at the end every step holds, and a capture of it fails none', async () => {
  const { outcomes, snapshot } = await judge(spec, own.source)
  expect(outcomes.filter(({ verdict }) => verdict !== 'passed')).toEqual([])
  const offline = await judgeRound(spec, snapshot, undefined)
  const verdicts = new Set(offline.map(({ verdict }) => verdict))
  expect([...verdicts].sort()).toEqual(['not applicable', 'passed'])
})

test('the reset leaves no Pod of shop, no node that takes none, and no entry that fills a table', async () => {
  const [node = ''] = await own.cluster.nodes()
  await own.bench.onNode(node, LEFT_ENTRY)
  await solution.leave?.(own.bench)
  const left = await own.bench.onNode(node, 'conntrack -L -d 203.0.113.1 2>/dev/null')
  expect(left).toBe('')
  const snapshot = await own.snapshot()
  expect(allPodsWithLabel(snapshot, 'shop')).toEqual([])
  expect(JSON.stringify(snapshot.items)).not.toContain('"unschedulable":true')
})
