// Lab 4 end to end on the embedded cluster: fails unsolved, passes solved, fails again for each
// single breakage, and for each scheduler that is not the one it should be, by what is measured
// alone.

import { beforeAll, describe, expect, test } from 'vitest'
import { resetLab } from '../../course/lab-solution.ts'
import { configOf } from '../../grading/evaluate.ts'
import { judgeRound } from '../../grading/judge.ts'
import { forgetNotes } from '../../grading/lab-notes.ts'
import { type Snapshot, stateOf } from '../../grading/snapshot.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { excludeRanges, type Variables, variables } from '../../labs/04-lvs/solution.ts'
import { breakages, swaps } from './lab-4-breakages.ts'
import { LabTest, testUnsolved } from './own-cluster.ts'

const own = await LabTest.of(4)
const { lab, spec } = own
let names: Variables

beforeAll(async () => {
  names = await variables(own.bench)
})

testUnsolved(own, 'OUTSIDE')

test('real servers alone pass the first step and no other', async () => {
  await own.solution.steps.stage?.play?.(own.bench)
  const snapshot = await own.snapshot()
  for (const { id } of lab.steps.slice(1))
    expect((await own.judged(id, snapshot))?.verdict, id).toBe('failed')
})

test('solved by the reference solution: every step passes, one by one and all together', () =>
  own.expectSolved())

test('the capture of the solved cluster earns every step', async () => {
  const outcomes = await judgeRound(spec, await own.snapshot(), undefined)
  expect(outcomes.filter(({ verdict }) => verdict !== 'passed').map(({ id }) => id)).toEqual([])
})

const expand = (text: string) =>
  text.replace(/\$(W1|W2|OUT)\b/g, (_, name: 'W1' | 'W2' | 'OUT') => names[name])

describe('one thing broken on one machine', () => {
  test.each(breakages)('$what: $step fails', async ({ at, step, noticed = at, ...breakage }) => {
    const machines = { director: names.DIRECTOR, worker: names.N1, outside: OUTSIDE }
    const repair = expand(breakage.repair)
    const work = () => own.judged(step)
    const outcome = await own.whileBroken(machines[at], expand(breakage.break), work, {
      save: 'true',
      repair,
    })
    expect(outcome?.verdict).toBe('failed')
    expect(outcome?.failure?.node).toBe(machines[noticed])
  })

  test('kube-proxy excludes no range: excluded fails', async () => {
    // A step that passed once remains passed: its note is deleted first.
    await forgetNotes(own.bench.client, 4, (key) => key === 'spared-by-kube-proxy')
    await excludeRanges(own.bench, [])
    expect((await own.judged('excluded'))?.verdict).toBe('failed')
    await excludeRanges(own.bench, ['192.0.2.0/24'])
    expect((await own.judged('excluded'))?.verdict).toBe('passed')
  })
})

describe('another scheduler than in the snapshot, which only the measurement can show', () => {
  let snapshot: Snapshot
  beforeAll(async () => {
    snapshot = await own.snapshot()
  })

  test.each(swaps)(
    '$wrong in place of $right: $step fails',
    async ({ step, services, right, wrong }) => {
      const schedule = (name: string) =>
        services.map((service) => `ipvsadm -E ${service} -s ${name}`).join('\n')
      const texts = { save: 'true', repair: schedule(right) }
      const work = () => own.judged(step, snapshot)
      expect((await own.whileBroken(names.DIRECTOR, schedule(wrong), work, texts))?.verdict).toBe(
        'failed',
      )
    },
  )
})

test('repaired, every step passes again; a reset removes all of it', async () => {
  const outcomes = await judgeRound(spec, await own.snapshot(), own.source.live)
  const open = outcomes.filter(({ verdict }) => verdict !== 'passed' && verdict !== 'not yet')
  expect(open.filter(({ id }) => !own.questions.includes(id)).map(({ id }) => id)).toEqual([])
  await resetLab(lab, own.bench)
  const snapshot = await own.snapshot()
  const { nodes } = snapshot
  expect(configOf(snapshot).ipvs.excludeCIDRs).toEqual([])
  for (const node of nodes) {
    const state = stateOf(node)
    expect(node.mode).toBe('iptables')
    expect(state.virtualServers).toEqual([])
    expect(JSON.stringify(state.links)).not.toContain('192.0.2.')
    expect(JSON.stringify([...(state.iptables.get('mangle') ?? [])])).not.toContain('lab-4')
  }
  const routes = await own.bench.onNode(OUTSIDE, 'ip route show table all')
  expect(routes).not.toMatch(/198\.1[89]\.|192\.0\.2\./)
})
