// Lab 5 end to end on the embedded cluster: fails unsolved, and step by step: fails broken, passes solved. Its steps are about
// moments, so each is broken while it is solved and the grader has not seen it pass.

import { describe, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/driver.ts'
import { chooseImage, isForeignImage } from '../../cluster/kube-proxy/image-choice.ts'
import { readDaemonSet } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { restartKubeProxyPods } from '../../cluster/kube-proxy/rollout.ts'
import { runOnNode } from '../../cluster/node-script.ts'
import { takeCapture } from '../../cluster/snapshot.ts'
import { resetLab } from '../../course/lab-reset.ts'
import { loadSolution } from '../../course/lab-solution.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { readLab, type StepDefinition } from '../../grading/lab-definition.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { webService } from '../../grading/web-service.ts'
import { type Breakage, type BreakageEnvironment, breakages, wrongAnswers } from './lab-5-breakages.ts'
import { ownCluster } from './own-cluster.ts'

const lab = readLab(5)
const spec = await loadSpec(lab)
const solution = await loadSolution(lab.folder)

const own = ownCluster(lab)
let environment: BreakageEnvironment

test('unsolved: no step passes, alone or with the others', async () => {
  const snapshot = await own.source.snapshot()
  const outcomes = await judgeRound(spec, snapshot, own.source.live)
  expect(outcomes.filter(({ verdict }) => verdict !== 'failed' && verdict !== 'not yet')).toEqual([])
  for (const { id } of lab.steps)
    expect(verdictsOf(await judgeRound(spec, snapshot, own.source.live, [id])), id).toEqual([[id, 'failed']])
})

const verdictsOf = (outcomes: readonly StepOutcome[]) => outcomes.map(({ id, verdict }) => [id, verdict])

async function onNode(node: string, script: string): Promise<string> {
  const { exitCode, stdout, stderr } = await runOnNode(own.cluster, node, script)
  if (exitCode !== 0) throw new Error(`"${script}" ended with ${exitCode}: ${stderr}`)
  return stdout
}

async function readEnvironment(): Promise<BreakageEnvironment> {
  const snapshot = await own.source.snapshot()
  const client = snapshot.find('Pod', 'default', 'client')
  const { address: web, backends } = webService(snapshot)
  const node = client?.spec?.nodeName ?? ''
  const other = backends.find((backend) => backend.node !== node)?.node ?? ''
  return { node, other, web, client: client?.status?.podIP ?? '' }
}

/** Judges on a look at the workers, which is all that a breakage can show. */
async function judgedNow(id: string): Promise<StepOutcome | undefined> {
  const workers = (await own.cluster.nodes()).slice(1)
  const seen: Cluster = Object.create(own.cluster, { nodes: { value: async () => workers } })
  const snapshot = new Snapshot(await takeCapture(seen, own.source.live.client))
  return (await judgeRound(spec, snapshot, own.source.live, [id]))[0]
}

/** Breaks, judges and heals once. */
async function tryBreakage(breakage: Breakage, place: string): Promise<StepOutcome | undefined> {
  await onNode(place, `iptables-save -c >/run/lab-5-tables; ${breakage.break(environment)}`)
  try {
    return await judgedNow(breakage.step)
  } finally {
    const healing = breakage.repair ? `; ${breakage.repair(environment)}` : ''
    await onNode(place, `iptables-restore -c </run/lab-5-tables${healing}`)
  }
}

async function mustSay(breakage: Breakage): Promise<void> {
  const place = breakage.elsewhere ? environment.other : environment.node
  const outcome = await tryBreakage(breakage, place)
  expect(outcome?.verdict, breakage.what).toBe('failed')
  expect(outcome?.failure?.node, breakage.what).toBe(place)
}

async function mustPass({ id }: StepDefinition): Promise<void> {
  const [outcome] = (await judge(spec, own.source, { only: [id] })).outcomes
  expect(outcome).toEqual({ id, verdict: 'passed' })
}

describe('step by step', () => {
  test.each(lab.steps)('$id: fails unsolved and for each single breakage, passes solved', async (step) => {
    const { id } = step
    const { play, cleanup } = solution.steps[id] ?? {}
    const wrong = wrongAnswers[id]
    if (wrong !== undefined) await own.bench.answer(lab.number, id, wrong)
    if (play) {
      expect((await judgedNow(id))?.verdict).toBe('failed')
      await play(own.bench)
    }
    if (id === 'stage') environment = await readEnvironment()
    for (const breakage of breakages) if (breakage.step === id) await mustSay(breakage)
    await mustPass(step)
    await cleanup?.play(own.bench)
  })
})

test('every step has something that breaks it', () => {
  const broken = new Set([...breakages.map(({ step }) => step), ...Object.keys(wrongAnswers)])
  expect(lab.steps.map(({ id }) => id).filter((id) => !broken.has(id))).toEqual([])
})

test('at the end every step holds, and a capture earns what needs neither requests nor moments', async () => {
  const { outcomes, snapshot } = await judge(spec, own.source)
  expect(outcomes.filter(({ verdict }) => verdict !== 'passed')).toEqual([])
  const offline = await judgeRound(spec, snapshot, undefined)
  const byVerdict = (wanted: string) => offline.filter(({ verdict }) => verdict === wanted).map(({ id }) => id)
  expect(byVerdict('passed')).toEqual([
    'stage',
    'gained-addresses',
    'filter-chain',
    'access-filter',
    'rejecting-set',
    'whole',
  ])
  expect(byVerdict('could not check')).toEqual([])
})

test('a reset takes rules and version back from where somebody stopped in the middle', async () => {
  const { node, web } = environment
  await onNode(
    node,
    `iptables -I INPUT -d ${web} -m comment --comment lab-5 -j REJECT
     iptables -t mangle -I PREROUTING -d ${web} -m comment --comment "lab-5 early" -j DROP`,
  )
  const old = chooseImage(own.cluster, await readDaemonSet(own.bench.client), '1.20')
  await restartKubeProxyPods(own.bench.client, old)
  await resetLab(lab, own.bench)
  expect(isForeignImage(await readDaemonSet(own.bench.client))).toBe(false)
  expect(await onNode(node, 'iptables-save | grep -c lab-5 || true')).toBe('0\n')
  const { nodes } = await own.source.snapshot()
  expect(nodes.map(({ mode }) => mode)).toEqual(nodes.map(() => 'iptables'))
})
