// What a step's `kernel:` in lab.yaml does, without a line in its check.

import { expect, test } from 'vitest'
import { checkedStep } from '../../grading/define-lab.ts'
import { judgeRound } from '../../grading/judge.ts'
import { emptySnapshot, type FakeStep, fakeLab, madeStep } from './fake-lab.ts'
import { madeLiveCluster } from './made-live-cluster.ts'

/** A kernel with IPVS, and without xt_recent, ip_set and NAT in nf_tables. */
const probe = 'release=6.1\nipvs=yes\nscheduler=rr\ndummy=yes\nextension=statistic\nend=1\n'

/** The outcome of a step that needs these features, and how often its check ran. */
async function judged(kernel: NonNullable<FakeStep['kernel']>, node?: () => string) {
  let runs = 0
  const step = checkedStep(99, madeStep({ id: 'it', kernel }), {
    check: () => runs++,
    asked: {},
    needsCluster: false,
    onlyAsks: false,
  })
  const live = node && madeLiveCluster({ node })
  if (live) live.cluster.nodes = async () => ['k8s-guide-worker']
  const [outcome] = await judgeRound(fakeLab({ it: step }), emptySnapshot(), live)
  return { ...outcome, runs }
}

test('a step that needs a feature is judged where the kernel has it', async () => {
  expect(await judged(['ipvs'], () => probe)).toMatchObject({ verdict: 'passed', runs: 1 })
})

test.each([
  ['recent', 'xt_recent'],
  ['ipset', 'ipset'],
] as const)('a step that needs %s is not applicable elsewhere', async (need, text) => {
  expect(await judged(['ipvs', need], () => probe)).toMatchObject({
    verdict: 'not applicable',
    outOfReach: true,
    reason: `this step can't run here: the nodes' kernel has no ${text}; CLUSTER=embedded with KERNEL=uml runs it`,
    runs: 0,
  })
})

test('a capture that does not state the kernel is judged by its files', async () => {
  expect(await judged(['recent', 'nft', 'ipvs'])).toMatchObject({ verdict: 'passed', runs: 1 })
})
