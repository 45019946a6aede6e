// Lab 10 end to end on the embedded cluster: fails unsolved, and step by step: fails broken, passes solved. Its steps are about moments,
// so each is broken while it is solved and the grader has not seen it pass.

import { describe, expect, test } from 'vitest'
import { clientOf, shopService } from '../../checks/10-connections/shop.ts'
import { allPodsWithLabel } from '../../grading/expect-object.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { type BreakageEnvironment, breakages, type Lab10Breakage } from './lab-10-breakages.ts'
import { LabTest, passed, testUnsolved, verdictsOf } from './own-cluster.ts'

const own = await LabTest.of(10)
const { lab, spec, solution } = own

testUnsolved(own)

async function readEnvironment(): Promise<BreakageEnvironment & { near: string; far: string }> {
  const snapshot = await own.snapshot()
  const { address, endpoints } = shopService(snapshot)
  const ready = endpoints.find((endpoint) => endpoint.ready)
  const leaving = endpoints.find((endpoint) => endpoint.terminating)
  const near = clientOf(snapshot).node.name
  return {
    shop: address,
    ready: ready?.address ?? '',
    leaving: leaving?.address ?? '',
    near,
    far: leaving?.node ?? near,
  }
}

async function expectFailure({ what, step, onLeaving, ...breakage }: Lab10Breakage): Promise<void> {
  const environment = await readEnvironment()
  const node = onLeaving ? environment.far : environment.near
  const repair = breakage.repair && { save: 'true', repair: breakage.repair(environment) }
  const outcome = await own.whileBroken(
    node,
    breakage.break(environment),
    () => own.judged(step),
    repair,
  )
  expect(outcome?.verdict, what).toBe('failed')
  expect(outcome?.failure?.node, what).toBe(node)
}

describe('step by step', () => {
  test.each(lab.steps)(
    '$id: fails unsolved and for each single breakage, passes solved',
    async ({ id }) => {
      expect((await own.judged(id))?.verdict).toBe('failed')
      await solution.steps[id]?.play?.(own.bench)
      for (const breakage of breakages) if (breakage.step === id) await expectFailure(breakage)
      const { outcomes } = await judge(spec, own.source, { only: [id] })
      expect(verdictsOf(outcomes)).toEqual(passed([{ id }]))
    },
    120_000,
  )
})

test('at the end every step holds, and a capture of it fails none', async () => {
  const { outcomes, snapshot } = await judge(spec, own.source)
  expect(outcomes.filter(({ verdict }) => verdict !== 'passed')).toEqual([])
  const offline = await judgeRound(spec, snapshot, undefined)
  const verdicts = new Set(offline.map(({ verdict }) => verdict))
  expect([...verdicts].sort()).toEqual(['not applicable', 'passed'])
})

test('the reset leaves no Pod of shop, and no node that takes none', async () => {
  await solution.leave?.(own.bench)
  const snapshot = await own.snapshot()
  expect(allPodsWithLabel(snapshot, 'shop')).toEqual([])
  expect(JSON.stringify(snapshot.items)).not.toContain('"unschedulable":true')
})
