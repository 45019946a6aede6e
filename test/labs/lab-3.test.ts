// Lab 3 end to end on the embedded cluster: fails unsolved, passes solved, fails again for each single breakage.

import { beforeAll, describe, expect, test } from 'vitest'
import { runOnNode } from '../../cluster/node-script.ts'
import { loadSolution } from '../../course/lab-bench.ts'
import { resetLab } from '../../course/lab-reset.ts'
import { playSteps } from '../../course/play-lab.ts'
import { serviceHash } from '../../dataplane/kube-proxy/rule-text.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { objectsOf } from '../../grading/snapshot.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { type OutsideEnvironment, outsideBreakages } from './outside-breakages.ts'
import { ownCluster } from './own-cluster.ts'

const lab = readLab(3)
const spec = await loadSpec(lab)
const solution = await loadSolution(lab.folder)
const name = 'lab-3-test'
const firstQuestion = lab.steps.findIndex(({ question }) => question !== undefined)
const firstUneven = lab.steps.findIndex(({ id }) => id === 'uneven')

const own = ownCluster(lab)
const environment: OutsideEnvironment = {
  nodePort: 0,
  balanced: { address: '', healthPort: 0, hash: serviceHash('default/web-lb', 'tcp') },
  web: serviceHash('default/web', 'tcp'),
  exposed: serviceHash('default/web-np', 'tcp'),
}

/** Judges steps on one snapshot, each alone: what a step waits for hides nothing. */
async function judged(steps: readonly string[]): Promise<StepOutcome[]> {
  const snapshot = await own.source.snapshot()
  const outcomes: StepOutcome[] = []
  for (const id of steps) outcomes.push(...(await judgeRound(spec, snapshot, own.source.live, [id])))
  return outcomes
}

const saying = (outcomes: readonly StepOutcome[]) =>
  outcomes.map(({ id, verdict, reason, failure }) => [id, verdict, reason ?? failure?.actual ?? ''])
const passed = (ids: readonly { id: string }[]) => ids.map(({ id }) => [id, 'passed', ''])

test('unsolved: no step passes, not even alone', async () => {
  const together = await judgeRound(spec, await own.source.snapshot(), own.source.live)
  expect(together.filter(({ verdict }) => verdict !== 'failed' && verdict !== 'not yet')).toEqual([])
  for (const alone of await judged(lab.steps.map(({ id }) => id))) expect(alone.verdict, alone.id).toBe('failed')
})

describe('solved by the reference solution', () => {
  const play = (steps: typeof lab.steps) => playSteps(spec, solution, own.bench, own.source, steps)

  test('a node port; a wrong answer about it is none', async () => {
    const steps = lab.steps.slice(0, firstQuestion)
    expect(saying(await play(steps))).toEqual(passed(steps))
    await own.bench.answer(3, 'node-port-chain', `KUBE-SVC-${environment.exposed}`)
    expect((await judged(['node-port-chain']))[0]?.failure?.actual).toContain(
      `"KUBE-SVC-${environment.exposed}", which is not right`,
    )
  })

  test('the doors, and whom the Pods see', async () => {
    const steps = lab.steps.slice(firstQuestion, firstUneven)
    expect(saying(await play(steps))).toEqual(passed(steps))
  })

  test('even Pods are not uneven, and nothing keeps them so', async () => {
    const outcomes = await judged(['uneven', 'crowded-share', 'anti-affinity', 'source-ranges'])
    expect(outcomes.map(({ verdict }) => verdict)).toEqual(['failed', 'failed', 'failed', 'failed'])
  })

  test('shares, measured and drawn, and the ranges', async () => {
    const steps = lab.steps.slice(firstUneven)
    const outcomes = await play(steps)
    expect(saying(outcomes)).toEqual(passed(steps))
    const [uneven, even] = ['uneven', 'anti-affinity'].map(
      (id) => outcomes.find((one) => one.id === id)?.measured ?? [],
    )
    for (const drawn of [uneven, even]) {
      expect(drawn?.[0]).toMatch(/^120 requests from outside/)
      expect(drawn?.filter((line) => line.includes('█'))).toHaveLength(4)
    }
    expect(even?.at(-1)).toMatch(/^One Pod's share went from \d+ % to [3-6]\d % before/)
  })

  test('on a capture of the end, what can be seen there', async () => {
    const outcomes = await judgeRound(spec, await own.source.snapshot(), undefined)
    const unseen = outcomes.filter(({ verdict }) => verdict !== 'passed')
    const even = 'the Pods were spread evenly when this capture was taken'
    expect(saying(unseen)).toEqual(['uneven', 'crowded-share'].map((id) => [id, 'not applicable', even]))
  })
})

async function onNode(node: string, script: string): Promise<string> {
  const { exitCode, stdout, stderr } = await runOnNode(own.cluster, node, script)
  if (exitCode !== 0) throw new Error(`"${script}" ended with ${exitCode}: ${stderr}`)
  return stdout
}

describe('one thing broken on one node', () => {
  beforeAll(async () => {
    const { services } = objectsOf(await own.source.snapshot())
    const find = (service: string) => services.find((one) => one.name === service)
    environment.nodePort = find('web-np')?.ports[0]?.nodePort ?? 0
    environment.balanced.address = find('web-lb')?.loadBalancerIngress[0]?.ip ?? ''
    environment.balanced.healthPort = find('web-lb')?.healthCheckNodePort ?? 0
  })

  test.each(outsideBreakages)('$what: $steps', async (breakage) => {
    const node = breakage.at === 'control-plane' ? `${name}-control-plane` : `${name}-worker2`
    await onNode(node, `iptables-save >/run/whole; ${breakage.break(environment)}`)
    try {
      for (const outcome of await judged(breakage.steps)) expect(outcome.verdict, outcome.id).toBe('failed')
    } finally {
      await onNode(node, breakage.repair?.(environment) ?? 'iptables-restore </run/whole')
    }
  })

  test('and all is whole again', async () => {
    const { outcomes } = await judge(spec, own.source)
    expect(saying(outcomes)).toEqual(passed(lab.steps))
  })
})

describe('a Service changed', () => {
  const change = async (service: string, spec: object) => {
    const { core, mergePatch } = own.bench.client
    await core.patchNamespacedService({ namespace: 'default', name: service, body: { spec } }, mergePatch)
  }

  test('policies swapped, and ranges for all: each step about it fails', async () => {
    await change('web-np', { externalTrafficPolicy: 'Local' })
    await change('web-lb', { externalTrafficPolicy: 'Cluster', loadBalancerSourceRanges: ['0.0.0.0/0'] })
    const ids = ['node-port', 'cluster-policy', 'local-policy', 'health-check', 'anti-affinity', 'source-ranges']
    const { outcomes } = await judge(spec, own.source, { only: ids, patienceMs: 0 })
    expect(outcomes.map(({ verdict }) => verdict)).not.toContain('passed')
  })

  test('reset leaves nothing, from here too', async () => {
    await resetLab(lab, own.bench)
    expect(
      objectsOf(await own.source.snapshot()).services.filter(({ namespace }) => namespace === 'default'),
    ).toHaveLength(1)
    expect(await onNode(OUTSIDE, 'ip -4 route show')).not.toContain('172.18.255.2')
  })
})
