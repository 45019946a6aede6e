// Lab 3 end to end on the embedded cluster: fails unsolved, passes solved, fails again for each
// single breakage.

import { beforeAll, describe, expect, test } from 'vitest'
import { resetLab } from '../../course/lab-solution.ts'
import { playSteps } from '../../course/play-lab.ts'
import { serviceHash } from '../../dataplane/kube-proxy/chain-names.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { objectsOf } from '../../grading/snapshot.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { breakages, type OutsideEnvironment } from './lab-3-breakages.ts'
import { LabTest, passed, testUnsolved, verdictsOf } from './own-cluster.ts'

const own = await LabTest.of(3)
const { lab, spec } = own
const firstQuestion = lab.steps.findIndex(({ question }) => question !== undefined)
const firstUneven = lab.steps.findIndex(({ id }) => id === 'uneven')
const environment: OutsideEnvironment = {
  nodePort: 0,
  balanced: { address: '', healthPort: 0, hash: serviceHash('default/web-lb', 'tcp') },
  web: serviceHash('default/web', 'tcp'),
  exposed: serviceHash('default/web-np', 'tcp'),
}

/** The verdicts of steps on one snapshot, each alone: what a step waits for hides nothing. */
async function verdictsAlone(steps: readonly string[]) {
  const snapshot = await own.snapshot()
  const verdicts: (string | undefined)[] = []
  for (const id of steps) verdicts.push((await own.judged(id, snapshot))?.verdict)
  return verdicts
}

const allFailed = (steps: readonly string[]) => steps.map(() => 'failed')

testUnsolved(own)

describe('solved by the reference solution', () => {
  const play = (steps: typeof lab.steps) => playSteps(own, steps)

  test('a step that builds on others names the first of them that has not passed', async () => {
    const steps = lab.steps.filter(({ id }) => id === 'local-policy')
    await expect(play(steps)).rejects.toThrow(
      /^Step "local-policy" builds on "web", which has not passed: run make solve-3 STEP=web first\. \(/,
    )
  })

  test('a node port; a wrong answer about it is none', async () => {
    const steps = lab.steps.slice(0, firstQuestion)
    expect(verdictsOf(await play(steps))).toEqual(passed(steps))
    await own.bench.answer(3, 'node-port-chain', `KUBE-SVC-${environment.exposed}`)
    expect((await own.judged('node-port-chain'))?.failure?.actual).toContain(
      `"KUBE-SVC-${environment.exposed}", which is not right`,
    )
  })

  test('a load balancer, and the client that the Pods see', async () => {
    const steps = lab.steps.slice(firstQuestion, firstUneven)
    expect(verdictsOf(await play(steps))).toEqual(passed(steps))
  })

  test('evenly spread Pods are not uneven, and have no anti-affinity', async () => {
    const steps = ['uneven', 'crowded-share', 'anti-affinity', 'source-ranges']
    expect(await verdictsAlone(steps)).toEqual(allFailed(steps))
  })

  test('shares, measured and drawn, and the ranges', async () => {
    const steps = lab.steps.slice(firstUneven)
    const outcomes = await play(steps)
    expect(verdictsOf(outcomes)).toEqual(passed(steps))
    const [uneven, even] = ['uneven', 'anti-affinity'].map(
      (id) => outcomes.find((one) => one.id === id)?.measured ?? [],
    )
    for (const drawn of [uneven, even]) {
      expect(drawn?.[0]).toMatch(/^120 requests from outside/)
      expect(drawn?.filter((line) => line.includes('█'))).toHaveLength(4)
    }
    expect(even?.at(-1)).toMatch(/^One Pod's share went from \d+ % to [3-6]\d % before/)
  })

  test('a capture of the end earns every step but those of the uneven Pods', async () => {
    const outcomes = await judgeRound(spec, await own.snapshot(), undefined)
    const unseen = outcomes.filter(({ verdict }) => verdict !== 'passed')
    const even = 'the Pods were spread evenly when this capture was taken'
    expect(verdictsOf(unseen)).toEqual({
      uneven: ['not applicable', even],
      'crowded-share': ['not applicable', even],
    })
  })
})

describe('one thing broken on one node', () => {
  beforeAll(async () => {
    const { services } = objectsOf(await own.snapshot())
    const find = (service: string) => services.find((one) => one.name === service)
    const { outcomes } = await judge(spec, own.source)
    // What was never solved can not be broken: with -t alone each breakage would seem to be
    // noticed.
    expect(verdictsOf(outcomes)).toEqual(passed(lab.steps))
    environment.nodePort = find('web-np')?.ports[0]?.nodePort ?? 0
    environment.balanced.address = find('web-lb')?.loadBalancerIngress[0]?.ip ?? ''
    environment.balanced.healthPort = find('web-lb')?.healthCheckNodePort ?? 0
  })

  test.each(breakages)('$what: $step', async ({ at, step, break: breakIt, repair }) => {
    const steps = step.split(', ')
    const node = `lab-3-test-${at ?? 'worker2'}`
    const restore = repair && { repair: repair(environment) }
    const verdicts = await own.whileBroken(
      node,
      breakIt(environment),
      () => verdictsAlone(steps),
      restore,
    )
    expect(verdicts).toEqual(allFailed(steps))
  })

  test('afterwards every step passes again', async () => {
    const { outcomes } = await judge(spec, own.source)
    expect(verdictsOf(outcomes)).toEqual(passed(lab.steps))
  })
})

describe('a Service changed', () => {
  test('policies swapped, and ranges for all: each step about it fails', async () => {
    await own.bench.patch('Service', 'web-np', { spec: { externalTrafficPolicy: 'Local' } })
    const open = { externalTrafficPolicy: 'Cluster', loadBalancerSourceRanges: ['0.0.0.0/0'] }
    await own.bench.patch('Service', 'web-lb', { spec: open })
    const ids = [
      'node-port',
      'cluster-policy',
      'local-policy',
      'health-check',
      'anti-affinity',
      'source-ranges',
    ]
    const { outcomes } = await judge(spec, own.source, { only: ids, patienceMs: 0 })
    expect(outcomes.map(({ verdict }) => verdict)).not.toContain('passed')
  })

  test('a reset removes everything', async () => {
    await resetLab(lab, own.bench)
    expect(
      objectsOf(await own.snapshot()).services.filter(({ namespace }) => namespace === 'default'),
    ).toHaveLength(1)
    expect(await own.bench.onNode(OUTSIDE, 'ip -4 route show')).not.toContain('172.18.255.2')
  })
})
