// Lab 7 end to end on the embedded cluster: fails unsolved, and step by step: fails broken, passes solved. It runs on this machine's own
// kernel, which has mode nftables; where namespaces are forbidden, on User-Mode Linux, where that is not applicable, solved or not.

import { describe, expect, test } from 'vitest'
import { runOnNode } from '../../cluster/node-script.ts'
import { loadSolution } from '../../course/lab-solution.ts'
import { hostKernelTrouble } from '../../embedded/index.ts'
import { evaluate } from '../../grading/evaluate.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { webService } from '../../grading/web-service.ts'
import { waitFor } from '../../host/wait.ts'
import { type Breakage, type BreakageEnvironment, breakages, wrongAnswers } from './lab-7-breakages.ts'
import { ownCluster } from './own-cluster.ts'

const lab = readLab(7)
const spec = await loadSpec(lab)
const solution = await loadSolution(lab.folder)
const forbidden = hostKernelTrouble()
if (forbidden) console.log(`Lab 7 is tested without its steps of mode nftables: ${forbidden.detail}.`)
/** What the kernel can't be asked. */
const notHere = lab.steps.map(({ id }) => id).filter((id) => forbidden && id.startsWith('nft-'))

const own = ownCluster(lab)
let environment: BreakageEnvironment

const verdictOf = (id: string) => (notHere.includes(id) ? 'not applicable' : 'failed')

test('unsolved: no step passes, alone or with the others', async () => {
  const snapshot = await own.source.snapshot()
  const outcomes = await judgeRound(spec, snapshot, own.source.live)
  expect(outcomes.filter(({ verdict }) => verdict === 'passed' || verdict === 'could not check')).toEqual([])
  for (const { id } of lab.steps)
    expect((await judgeRound(spec, snapshot, own.source.live, [id]))[0]?.verdict, id).toBe(verdictOf(id))
})

async function onNode(node: string, script: string): Promise<string> {
  const { exitCode, stdout, stderr } = await runOnNode(own.cluster, node, script)
  if (exitCode !== 0) throw new Error(`"${script}" ended with ${exitCode}: ${stderr}`)
  return stdout
}

async function readEnvironment(): Promise<BreakageEnvironment> {
  const snapshot = await own.source.snapshot()
  const { address: web, backends } = webService(snapshot)
  const node = snapshot.find('Pod', 'default', 'client')?.spec?.nodeName ?? ''
  const hearing = backends.filter(({ pod }) => pod !== 'deaf')
  const other = hearing.find((backend) => backend.node !== node)?.node ?? ''
  const deaf = backends.find(({ pod }) => pod === 'deaf')?.address ?? ''
  return { node, other, web, deaf, pod: hearing[0]?.address ?? '' }
}

/** Every node holds what this mode programs; what another mode left beside its tables is not looked at. */
async function settled(mode: 'iptables' | 'nftables'): Promise<void> {
  await waitFor('every node to follow', 20_000, async () => {
    const { nodes } = await own.source.snapshot()
    const found = nodes.flatMap((node) => evaluate(node, mode).differences)
    return found.filter(({ where }) => mode === 'iptables' || 'nft' in where).length === 0
  })
}

async function judgedNow(id: string): Promise<StepOutcome | undefined> {
  return (await judgeRound(spec, await own.source.snapshot(), own.source.live, [id]))[0]
}

async function tryBreakage(breakage: Breakage, place: string): Promise<StepOutcome | undefined> {
  const [save, restore] = breakage.nft
    ? ['{ echo "delete table ip kube-proxy"; nft list table ip kube-proxy; }', 'nft -f']
    : ['iptables-save -c', 'iptables-restore -c']
  await onNode(place, `${save} >/run/lab-7-tables; ${breakage.break(environment)}`)
  try {
    return await judgedNow(breakage.step)
  } finally {
    await onNode(place, `${restore} /run/lab-7-tables${breakage.repair ? `; ${breakage.repair}` : ''}`)
  }
}

async function mustSay(breakage: Breakage): Promise<void> {
  const place = breakage.elsewhere ? environment.other : environment.node
  const outcome = await tryBreakage(breakage, place)
  expect(outcome?.verdict, breakage.what).toBe('failed')
  expect(outcome?.failure?.node, breakage.what).toBe(breakage.named === false ? undefined : place)
}

describe('step by step', () => {
  test.each(lab.steps)('$id: fails unsolved and for each single breakage, passes solved', async ({ id }) => {
    const { play, cleanup } = solution.steps[id] ?? {}
    const wrong = wrongAnswers[id]
    if (wrong !== undefined) {
      await own.bench.answer(lab.number, id, wrong)
      expect((await judgedNow(id))?.verdict).toBe('failed')
    }
    await play?.(own.bench)
    if (id === 'stage') environment = await readEnvironment()
    // What kube-proxy still has to write would be undone with the breakage.
    if (id === 'stage' || id === 'probed') await settled('iptables')
    if (id === 'nft-tables' && !notHere.includes(id)) await settled('nftables')
    for (const breakage of breakages) if (breakage.step === id && !notHere.includes(id)) await mustSay(breakage)
    const [outcome] = (await judge(spec, own.source, { only: [id] })).outcomes
    expect(outcome, JSON.stringify(outcome?.failure)).toMatchObject(
      notHere.includes(id)
        ? { verdict: 'not applicable', reason: expect.stringContaining('nft_chain_nat') }
        : { verdict: 'passed' },
    )
    await cleanup?.play(own.bench)
  })
})

test('every step that can be asked here has something that breaks it', () => {
  const broken = new Set([...breakages.map(({ step }) => step), ...Object.keys(wrongAnswers), ...notHere])
  expect(lab.steps.map(({ id }) => id).filter((id) => !broken.has(id))).toEqual([])
})

test('at the end every step holds, and nothing of userspace mode is left', async () => {
  const { outcomes, snapshot } = await judge(spec, own.source)
  expect(
    outcomes.filter(({ id, verdict }) => verdict !== (notHere.includes(id) ? 'not applicable' : 'passed')),
  ).toEqual([])
  const offline = await judgeRound(spec, snapshot, undefined)
  expect(offline.filter(({ verdict }) => verdict === 'failed' || verdict === 'could not check')).toEqual([])
  expect(offline.filter(({ verdict }) => verdict === 'passed').map(({ id }) => id)).toEqual(
    expect.arrayContaining(['back', 'choose-list', 'choose-scheduler']),
  )
})
