// Lab 9 end to end on the embedded cluster: fails unsolved, passes solved; a lost request is shown with its client, target and time.

import { expect, test } from 'vitest'
import { playSteps } from '../../course/play-lab.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { judge } from '../../grading/judge.ts'
import { LabTest, passed, verdictsOf } from './own-cluster.ts'

const own = await LabTest.of(9)
const { lab, spec } = own
/** Steps about nftables mode, which User-Mode Linux does not run. */
const OUT_OF_REACH = new Set(['handover'])
const steps = lab.steps.filter(({ id }) => !OUT_OF_REACH.has(id))

test('unsolved: no step passes, alone or with the others', async () => {
  await own.expectUnsolved((id) => (OUT_OF_REACH.has(id) ? 'not applicable' : 'failed'))
})

test('played step by step, every step passes', async () => {
  const outcomes = await playSteps(own, lab.steps)
  expect(verdictsOf(outcomes.filter(({ id }) => !OUT_OF_REACH.has(id)))).toEqual(passed(steps))
}, 180_000)

test('at the end every step holds, and nothing differs from the prediction', async () => {
  const { outcomes, snapshot } = await judge(spec, own.source)
  expect(verdictsOf(outcomes.filter(({ id }) => !OUT_OF_REACH.has(id)))).toEqual(passed(steps))
  for (const node of snapshot.nodes)
    expect(evaluate(node, 'iptables').differences.map(({ text }) => text)).toEqual([])
})

test('a request that is lost is shown with its client, target and time', async () => {
  const [, node = ''] = await own.cluster.nodes()
  const rule =
    'OUTPUT -p tcp --dport 80 -m comment --comment lab-9-lost -j REJECT --reject-with tcp-reset'
  const lines = () =>
    own.bench.client.core
      .listNamespacedPod({ namespace: 'default', labelSelector: 'app=traffic,from=node' })
      .then(({ items }) => items.find(({ spec: pod }) => pod?.nodeName === node)?.metadata?.name)
  const name = (await lines()) ?? ''
  await own.bench.onNode(node, `iptables -I ${rule}`)
  const log = await own.bench.client.core.readNamespacedPodLog({ namespace: 'default', name })
  await expect
    .poll(
      async () =>
        (await own.bench.client.core.readNamespacedPodLog({ namespace: 'default', name }))?.slice(
          log?.length ?? 0,
        ),
      { timeout: 15_000 },
    )
    .toMatch(/^FAILED \d\d:\d\d:\d\d new 10\.96\.\S+:80: /m)
  await own.bench.onNode(node, `iptables -D ${rule}`)
})
