// Lab 7 end to end on the embedded cluster: fails unsolved, and step by step: fails broken, passes
// solved. It runs on this machine's own kernel, which has mode nftables; where namespaces are
// forbidden, on User-Mode Linux, where that is not applicable, solved or not.

import { describe, expect, test } from 'vitest'
import { hostKernelTrouble } from '../../embedded/index.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { webService } from '../../grading/expect-object.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { waitFor } from '../../host/wait.ts'
import {
  type BreakageEnvironment,
  breakages,
  type Lab7Breakage,
  wrongAnswers,
} from './lab-7-breakages.ts'
import { LabTest, RESTORE } from './own-cluster.ts'

const own = await LabTest.of(7)
const { lab, spec, solution } = own
const forbidden = hostKernelTrouble()
if (forbidden)
  console.log(`Lab 7 is tested without its steps of mode nftables: ${forbidden.detail}.`)
/** Steps that are not applicable on this kernel. */
const notHere = lab.steps.map(({ id }) => id).filter((id) => forbidden && id.startsWith('nft-'))

let environment: BreakageEnvironment

test('unsolved: no step passes, alone or with the others', () =>
  own.expectUnsolved((id) => (notHere.includes(id) ? 'not applicable' : 'failed')))

async function readEnvironment(): Promise<BreakageEnvironment> {
  const snapshot = await own.snapshot()
  const { address: web, backends } = webService(snapshot)
  const node = snapshot.find('Pod', 'default', 'client')?.spec?.nodeName ?? ''
  const healthy = backends.filter(({ pod }) => pod !== 'deaf')
  const other = healthy.find((backend) => backend.node !== node)?.node ?? ''
  const deaf = backends.find(({ pod }) => pod === 'deaf')?.address ?? ''
  return { node, other, web, deaf, pod: healthy[0]?.address ?? '' }
}

/**
 * Every node holds what this mode programs; what another mode left beside its tables is not looked
 * at.
 */
async function settled(mode: 'iptables' | 'nftables'): Promise<void> {
  await waitFor('every node to follow', 20_000, async () => {
    const { nodes } = await own.snapshot()
    const found = nodes.flatMap((node) => evaluate(node, mode).differences)
    return found.filter(({ where }) => mode === 'iptables' || 'nft' in where).length === 0
  })
}

async function expectFailure({
  what,
  step,
  elsewhere,
  nft,
  named = true,
  ...breakage
}: Lab7Breakage): Promise<void> {
  const node = elsewhere ? environment.other : environment.node
  const [save, restore] = nft
    ? ['{ echo "delete table ip kube-proxy"; nft list table ip kube-proxy; }', 'nft -f /run/tables']
    : ['iptables-save -c', RESTORE]
  const texts = { save, repair: `${restore}\n${breakage.repair?.(environment) ?? ''}` }
  const outcome = await own.whileBroken(
    node,
    breakage.break(environment),
    () => own.judged(step),
    texts,
  )
  expect(outcome?.verdict, what).toBe('failed')
  expect(outcome?.failure?.node, what).toBe(named ? node : undefined)
}

/** The step holds now; one that this kernel can't show is not applicable. */
async function expectSolved(id: string): Promise<void> {
  const [outcome] = (await judge(spec, own.source, { only: [id] })).outcomes
  expect(outcome, JSON.stringify(outcome?.failure)).toMatchObject(
    notHere.includes(id)
      ? { verdict: 'not applicable', reason: expect.stringContaining('nft_chain_nat') }
      : { verdict: 'passed' },
  )
}

describe('step by step', () => {
  test.each(lab.steps)(
    '$id: fails unsolved and for each single breakage, passes solved',
    async ({ id }) => {
      const { play, cleanup } = solution.steps[id] ?? {}
      const wrong = wrongAnswers[id]
      if (wrong !== undefined) {
        await own.bench.answer(lab.number, id, wrong)
        expect((await own.judged(id))?.verdict).toBe('failed')
      }
      await play?.(own.bench)
      if (id === 'stage') environment = await readEnvironment()
      // What kube-proxy still has to write would be undone with the breakage.
      if (id === 'stage' || id === 'probed') await settled('iptables')
      if (id === 'nft-tables' && !notHere.includes(id)) await settled('nftables')
      const broken = notHere.includes(id) ? [] : breakages.filter(({ step }) => step === id)
      for (const breakage of broken) await expectFailure(breakage)
      await expectSolved(id)
      await cleanup?.play?.(own.bench)
    },
  )
})

test('every step that is applicable here has something that breaks it', () => {
  const broken = new Set([
    ...breakages.map(({ step }) => step),
    ...Object.keys(wrongAnswers),
    ...notHere,
  ])
  expect(lab.steps.map(({ id }) => id).filter((id) => !broken.has(id))).toEqual([])
})

test('at the end every step holds, and nothing of userspace mode is left', async () => {
  const { outcomes, snapshot } = await judge(spec, own.source)
  expect(
    outcomes.filter(
      ({ id, verdict }) => verdict !== (notHere.includes(id) ? 'not applicable' : 'passed'),
    ),
  ).toEqual([])
  const offline = await judgeRound(spec, snapshot, undefined)
  expect(
    offline.filter(({ verdict }) => verdict === 'failed' || verdict === 'could not check'),
  ).toEqual([])
  expect(offline.filter(({ verdict }) => verdict === 'passed').map(({ id }) => id)).toEqual(
    expect.arrayContaining(['back', 'choose-list', 'choose-scheduler']),
  )
})
