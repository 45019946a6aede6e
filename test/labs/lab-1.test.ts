// Lab 1 end to end on the embedded cluster: fails unsolved, passes solved, fails again for each single breakage.

import { describe, expect, test } from 'vitest'
import { webChain } from '../../checks/01-iptables/web-chains.ts'
import { runOnNode } from '../../cluster/node-script.ts'
import { loadSolution } from '../../course/lab-solution.ts'
import { playSteps } from '../../course/play-lab.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { readLab } from '../../grading/lab-definition.ts'
import type { Snapshot } from '../../grading/snapshot.ts'
import { findService, webService } from '../../grading/web-service.ts'
import { waitFor } from '../../host/wait.ts'
import { type Breakage, type BreakageEnvironment, breakages } from './lab-1-breakages.ts'
import { ownCluster, verdictsOf } from './own-cluster.ts'

const lab = readLab(1)
const spec = await loadSpec(lab)
const solution = await loadSolution(lab.folder)
const questions = lab.steps.filter(({ question }) => question !== undefined).map(({ id }) => id)

const own = ownCluster(lab)
let solved: Snapshot
let environment: Omit<BreakageEnvironment, 'node'>

test('unsolved: no step passes, nor does a question with a wrong answer', async () => {
  const { outcomes } = await judge(spec, own.source)
  expect(outcomes.filter(({ verdict }) => verdict !== 'failed' && verdict !== 'not yet')).toEqual([])
  for (const id of questions) await own.bench.answer(lab.number, id, 'KUBE-SVC-AAAAAAAAAAAAAAAA')
  // Alone, too: a step must not pass because nobody asked for what it needs.
  const snapshot = await own.source.snapshot()
  for (const { id } of lab.steps) {
    const alone = await judgeRound(spec, snapshot, own.source.live, [id])
    expect(
      alone.map(({ verdict }) => verdict),
      id,
    ).toEqual(['failed'])
  }
})

test('solved by the reference solution: every step passes, one by one and all together', async () => {
  const played = await playSteps(spec, solution, own.bench, own.source, lab.steps)
  expect(verdictsOf(played)).toEqual(Object.fromEntries(lab.steps.map(({ id }) => [id, ['passed', '']])))
  const { outcomes, snapshot } = await judge(spec, own.source)
  expect(outcomes.filter(({ verdict }) => verdict !== 'passed')).toEqual([])
  solved = snapshot
  const clusterIP = (name: string) => findService(snapshot, name)?.clusterIPs[0] ?? ''
  environment = {
    web: webService(snapshot).address,
    mirror: clusterIP('mirror'),
    nobody: clusterIP('nobody'),
    threePorts: clusterIP('three-ports'),
    webChain: webChain(snapshot),
  }
})

test('the capture of the solved cluster earns what needs no cluster', async () => {
  const outcomes = await judgeRound(spec, await own.source.snapshot(), undefined)
  const other = outcomes.filter(({ verdict }) => verdict !== 'passed').map(({ id, verdict }) => [id, verdict])
  expect(other).toEqual([['families', 'not applicable']])
})

test('a wrong answer afterwards takes nothing away, and the cluster may move on', async () => {
  await own.bench.answer(lab.number, 'probability', '1')
  await own.bench.scale('web', 2)
  const [outcome] = await judgeRound(spec, await own.source.snapshot(), own.source.live, ['probability'])
  expect(outcome?.verdict).toBe('passed')
  await own.bench.scale('web', 1)
  expect((await judge(spec, own.source, { only: ['web'] })).outcomes[0]?.verdict).toBe('failed')
  await own.bench.scale('web', 5)
  await waitFor('every node to follow', 20_000, async () => {
    const { outcomes } = await judge(spec, own.source, { only: ['web', 'chains'] })
    return outcomes.every(({ verdict }) => verdict === 'passed')
  })
})

describe('one thing broken on one node', () => {
  const nodeOf = (pod: string) => solved.find('Pod', 'default', pod)?.spec?.nodeName ?? ''

  function placeOf({ at }: Breakage): string {
    if (at !== 'other') return nodeOf(at)
    return solved.nodes.find(({ name }) => name !== nodeOf('client'))?.name ?? ''
  }

  async function onNode(node: string, script: string): Promise<string> {
    const { exitCode, stdout, stderr } = await runOnNode(own.cluster, node, script)
    if (exitCode !== 0) throw new Error(`"${script}" ended with ${exitCode}: ${stderr}`)
    return stdout
  }

  const judged = async (step: string) =>
    (await judgeRound(spec, await own.source.snapshot(), own.source.live, [step]))[0]

  /** Breaks, judges and repairs. */
  async function tryBreakage(breakage: Breakage, there: BreakageEnvironment): Promise<StepOutcome | undefined> {
    const tables = await onNode(there.node, 'iptables-save -c')
    await onNode(there.node, breakage.break(there))
    try {
      return await judged(breakage.step)
    } finally {
      const healing = breakage.repair ? `\n${breakage.repair(there)}` : ''
      await onNode(there.node, `iptables-restore -c <<'TABLES'\n${tables}\nTABLES${healing}`)
    }
  }

  test.each(breakages)('$what: $step fails', async (breakage) => {
    const there = { ...environment, node: placeOf(breakage) }
    const outcome = await tryBreakage(breakage, there)
    expect(outcome?.verdict).toBe('failed')
    expect(outcome?.failure?.node).toBe(there.node)
    await waitFor(
      'the cluster to be whole again',
      20_000,
      async () => (await judged(breakage.step))?.verdict === 'passed',
    )
  })
})
