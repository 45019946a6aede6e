// Lab 6 on the embedded cluster: fails unsolved, is measured for real in both modes, and fails with
// one thing altered in the run. Shapes of a small run on a busy machine may be hidden by noise:
// that must be trouble, never a failure. That a wrong shape fails is proved without a kernel
// (test/grading/scale.test.ts).

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { resetLab } from '../../course/lab-solution.ts'
import { measureHere } from '../../course/scale/measure.ts'
import { MEASUREMENT, type Measurement, measurement } from '../../course/scale/measurement.ts'
import type { SwitchedMode } from '../../dataplane/kube-proxy/mode-ownership.ts'
import { judge } from '../../grading/judge.ts'
import { findStep } from '../../grading/lab-definition.ts'
import { LabNotes, writeNotes } from '../../grading/lab-notes.ts'
import { stateOf } from '../../grading/snapshot.ts'
import { projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'
import { timeoutScale } from '../../host/wait.ts'
import { madeRun } from '../grading/made-measurement.ts'
import { LabTest, testUnsolved } from './own-cluster.ts'

const own = await LabTest.of(6)
const { lab, spec, solution, questions } = own
const shapes = ['change', 'lookup', 'keep-alive', 'cpu', 'nftables']

let run: Measurement

afterAll(async () => {
  if (own.bench) await resetLab(lab, own.bench)
})

const keepRun = (kept: Measurement) =>
  writeNotes(own.bench.client, lab.number, { [MEASUREMENT]: JSON.stringify(kept) })

testUnsolved(own)

test(
  "kube-proxy's own figures are those that a learner reads on a node, and the rules are counted as the node has them",
  async () => {
    await keepRun(madeRun([10, 30, 60, 100]))
    await solution.steps['own-sync']?.play?.(own.bench)
    const outcome = await own.judged('own-sync')
    expect(outcome?.verdict, outcome?.reason).toBe('passed')
    expect(outcome?.learning?.prediction?.because).toMatch(/ ms \(\d+ syncs\)/)
    const [node] = (await own.snapshot()).nodes
    const chains = [...((node && stateOf(node).iptables.get('nat')?.values()) ?? [])]
    const rules = chains
      .filter(({ name }) => name.startsWith('KUBE-'))
      .reduce((sum, chain) => sum + chain.rules.length, 0)
    expect(outcome?.learning?.answered?.text).toBe(String(rules))
    await resetLab(lab, own.bench)
  },
  300_000 * timeoutScale(),
)

test(
  'both modes are measured on one node, and the files are where the text names them',
  async () => {
    const { folder } = await measureHere(own.cluster, own.bench.client, silent, {
      env: { MAX: '100', ENDPOINTS: '2' },
      effort: { visits: 2, rounds: 6, blocks: 6, changes: 6 },
    })
    const files = [
      'scale.svg',
      'scale.txt',
      'scale.json',
      'iptables-mode/iptables-save',
      'ipvs-mode/ipvsadm-save',
    ]
    expect(folder).toBe(`.evidence/${own.cluster.name}/lab-6`)
    expect(files.filter((file) => !existsSync(join(projectRoot, folder, file)))).toEqual([])
    const kept = new LabNotes(lab.number, await own.snapshot()).read(MEASUREMENT, measurement)
    if (!kept) throw new Error('the cluster holds no run')
    run = kept
    expect(run.ipvs.map(({ services }) => services)).toEqual([10, 30, 60, 100])
  },
  300_000 * timeoutScale(),
)

describe('one thing altered', () => {
  const last = 3
  const altered = (
    mode: SwitchedMode,
    change: Partial<Measurement['ipvs'][number]>,
  ): Measurement => ({
    ...run,
    [mode]: run[mode].map((point, index) => (index === last ? { ...point, ...change } : point)),
  })

  test.each<[string, string, () => Measurement]>([
    [
      'measured',
      'a size left out',
      () => ({ ...run, iptables: run.iptables.slice(1), ipvs: run.ipvs.slice(1) }),
    ],
    [
      'entries',
      'an entry',
      () => altered('iptables', { entries: (run.iptables[last]?.entries ?? 0) - 1 }),
    ],
    [
      'sets',
      'a rule in IPVS mode',
      () => altered('ipvs', { rules: (run.ipvs[last]?.rules ?? 0) + 1 }),
    ],
    [
      'sets',
      'a virtual server',
      () => altered('ipvs', { virtualServers: (run.ipvs[last]?.virtualServers ?? 0) - 1 }),
    ],
  ])('%s: %s', async (id, _what, alter) => {
    await keepRun(alter())
    expect((await own.judged(id))?.verdict).toBe('failed')
  })

  test.each(questions)('%s: a wrong answer', async (id) => {
    await keepRun(run)
    // A question that follows a prediction is judged once there is one.
    const { predict } = findStep(lab, id)
    if (predict) await own.bench.predict(lab.number, id, predict.choices?.[0] ?? '1')
    await own.bench.answer(lab.number, id, '7')
    expect((await own.judged(id))?.verdict).toBe('failed')
  })
})

test('solved: every step passes, but for shapes that noise may hide', async () => {
  await keepRun(run)
  // The first step measures again; what it predicts is predicted alone.
  await own.bench.predict(lab.number, 'measured', 'rules, change, new-connections, cpu')
  for (const { id } of lab.steps.slice(1)) await solution.steps[id]?.play?.(own.bench)
  const { outcomes } = await judge(spec, own.source)
  const counted = outcomes.filter(({ id }) => !shapes.includes(id))
  expect(counted.map(({ id, verdict }) => `${id} ${verdict}`)).toEqual(
    counted.map(({ id }) => `${id} passed`),
  )
  const measured = outcomes.filter(({ id }) => shapes.includes(id))
  expect(
    measured.filter(({ verdict }) => verdict !== 'passed' && verdict !== 'could not check'),
  ).toEqual([])
})
