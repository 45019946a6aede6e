// Lab 4 end to end on the embedded cluster: fails unsolved, passes solved, fails again for each single breakage, and for each
// scheduler that is not the one it should be, by what is measured alone.

import { beforeAll, describe, expect, test } from 'vitest'
import { resetLab } from '../../course/lab-reset.ts'
import { loadSolution } from '../../course/lab-solution.ts'
import { playSteps } from '../../course/play-lab.ts'
import { configOf } from '../../grading/evaluate.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { type Snapshot, stateOf } from '../../grading/snapshot.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { excludeRanges, type Variables, variables } from '../../labs/04-lvs/machines.ts'
import { type Breakage, breakages, swaps } from './lab-4-breakages.ts'
import { ownCluster, verdictsOf } from './own-cluster.ts'

const lab = readLab(4)
const spec = await loadSpec(lab)
const solution = await loadSolution(lab.folder)
const questions = lab.steps.filter(({ question }) => question !== undefined).map(({ id }) => id)

const own = ownCluster(lab)
let names: Variables

beforeAll(async () => {
  names = await variables(own.bench)
})

const judged = async (step: string, snapshot?: Snapshot) =>
  (await judgeRound(spec, snapshot ?? (await own.source.snapshot()), own.source.live, [step]))[0]

test('unsolved: no step passes, nor does a question with a wrong answer', async () => {
  for (const id of questions) await own.bench.answer(lab.number, id, 'OUTSIDE')
  // Alone: a step must not pass because nobody asked for what it needs.
  const snapshot = await own.source.snapshot()
  for (const { id } of lab.steps) expect((await judged(id, snapshot))?.verdict, id).toBe('failed')
  // Real servers alone prove nothing but themselves.
  await solution.steps.stage?.play?.(own.bench)
  const staged = await own.source.snapshot()
  for (const { id } of lab.steps.slice(1)) expect((await judged(id, staged))?.verdict, id).toBe('failed')
})

test('solved by the reference solution: every step passes, one by one and all together', async () => {
  const played = await playSteps(spec, solution, own.bench, own.source, lab.steps)
  expect(verdictsOf(played)).toEqual(Object.fromEntries(lab.steps.map(({ id }) => [id, ['passed', '']])))
  const { outcomes } = await judge(spec, own.source)
  expect(outcomes.filter(({ verdict }) => verdict !== 'passed')).toEqual([])
})

test('the capture of the solved cluster earns every step: the director holds what was built', async () => {
  const outcomes = await judgeRound(spec, await own.source.snapshot(), undefined)
  expect(outcomes.filter(({ verdict }) => verdict !== 'passed').map(({ id }) => id)).toEqual([])
})

const machineOf = ({ at }: Breakage) => ({ director: names.DIRECTOR, worker: names.N1, outside: OUTSIDE })[at]
const expand = (text: string) => text.replace(/\$(W1|W2|OUT)\b/g, (_, name: 'W1' | 'W2' | 'OUT') => names[name])

describe('one thing broken on one machine', () => {
  test.each(breakages)('$what: $step fails', async (breakage) => {
    const machine = machineOf(breakage)
    await own.bench.onNode(machine, expand(breakage.break))
    try {
      const outcome = await judged(breakage.step)
      expect(outcome?.verdict).toBe('failed')
      const noticed = { director: names.DIRECTOR, worker: names.N1 }
      expect(outcome?.failure?.node).toBe(breakage.noticed ? noticed[breakage.noticed] : machine)
    } finally {
      await own.bench.onNode(machine, expand(breakage.repair))
    }
  })

  test('kube-proxy was told of no range: excluded fails', async () => {
    // What was seen once holds; here nobody has seen it.
    await own.bench.delete('ConfigMap', 'lab-4')
    await excludeRanges(own.bench, [])
    expect((await judged('excluded'))?.verdict).toBe('failed')
    await excludeRanges(own.bench, ['192.0.2.0/24'])
    expect((await judged('excluded'))?.verdict).toBe('passed')
  })
})

describe('another scheduler than the snapshot says, so that only the measurement can tell', () => {
  let snapshot: Snapshot
  beforeAll(async () => {
    snapshot = await own.source.snapshot()
  })

  test.each(swaps)('$wrong in place of $right: $step fails', async ({ step, services, right, wrong }) => {
    const schedule = (name: string) => services.map((service) => `ipvsadm -E ${service} -s ${name}`).join('\n')
    await own.bench.onNode(names.DIRECTOR, schedule(wrong))
    try {
      expect((await judged(step, snapshot))?.verdict).toBe('failed')
    } finally {
      await own.bench.onNode(names.DIRECTOR, schedule(right))
    }
  })
})

test('healed, every step passes again; a reset removes all of it', async () => {
  const outcomes = await judgeRound(spec, await own.source.snapshot(), own.source.live)
  const open = outcomes.filter(({ verdict }) => verdict !== 'passed' && verdict !== 'not yet')
  expect(open.filter(({ id }) => !questions.includes(id)).map(({ id }) => id)).toEqual([])
  await resetLab(lab, own.bench)
  const snapshot = await own.source.snapshot()
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
