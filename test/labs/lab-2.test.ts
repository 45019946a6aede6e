// Lab 2 end to end on the embedded cluster: fails unsolved, passes solved, fails again for each single breakage.

import { describe, expect, test } from 'vitest'
import type { Cluster } from '../../cluster/driver.ts'
import { takeCapture } from '../../cluster/snapshot.ts'
import { loadSolution } from '../../course/lab-solution.ts'
import { playSteps } from '../../course/play-lab.ts'
import { configOf } from '../../grading/evaluate.ts'
import type { StepOutcome } from '../../grading/failure.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { findService, webService } from '../../grading/web-service.ts'
import { waitFor } from '../../host/wait.ts'
import { type Breakage, type BreakageEnvironment, breakages } from './breakages.ts'
import { clusterBreakages } from './cluster-breakages.ts'
import { ownCluster, verdictsOf } from './own-cluster.ts'

const lab = readLab(2)
const spec = await loadSpec(lab)
const solution = await loadSolution(lab.folder)
/** Steps that are judged from state alone, quickly, beside the one that a breakage is about. */
const quickSteps = ['ipvs', 'kube-ipvs0', 'sets', 'prerouting', 'virtual-servers', 'postrouting']
const requestSteps = ['node-port', 'pod-to-service', 'masquerade', 'conntrack']

const own = ownCluster(lab)
let environment: BreakageEnvironment

test('unsolved: no step passes', async () => {
  const { outcomes } = await judge(spec, own.source)
  expect(outcomes.filter(({ verdict }) => verdict !== 'failed' && verdict !== 'not yet')).toEqual([])
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
  const { address, backends } = webService(snapshot)
  const clientNode = snapshot.find('Pod', 'default', 'client')?.spec?.nodeName ?? ''
  const nodePort = findService(snapshot, 'web-np')?.ports[0]?.nodePort ?? 0
  const { address: backend = '', node: backendNode = '' } = backends[0] ?? {}
  const { scheduler } = configOf(snapshot).ipvs
  environment = { node: 'lab-2-test-worker2', web: address, backend, backendNode, nodePort, clientNode, scheduler }
})

/** Judges what a breakage of this node can show; steps that send requests need all the nodes. */
async function judged(step: string, node: string): Promise<StepOutcome[]> {
  const only = [...new Set([...quickSteps, step])]
  const { live } = own.source
  if (requestSteps.includes(step)) return judgeRound(spec, await own.source.snapshot(), live, only)
  const seen: Cluster = Object.create(own.cluster, { nodes: { value: async () => [node] } })
  return judgeRound(spec, new Snapshot(await takeCapture(seen, live.client)), live, only)
}

async function onNode(node: string, script: string, stdin?: string): Promise<void> {
  const { exitCode, stderr } = await own.cluster.exec(
    node,
    ['bash', '-c', script],
    stdin === undefined ? {} : { stdin },
  )
  if (exitCode !== 0) throw new Error(`"${script}" ended with ${exitCode}: ${stderr}`)
}

/** Breaks, judges and repairs. */
async function tryBreakage(breakage: Breakage, there: BreakageEnvironment): Promise<StepOutcome[]> {
  const { stdout: tables } = await own.cluster.exec(there.node, ['iptables-save'])
  await onNode(there.node, breakage.break(there))
  try {
    return await judged(breakage.step, there.node)
  } finally {
    if (breakage.repair) await onNode(there.node, breakage.repair(there))
    else await onNode(there.node, 'iptables-restore', tables)
  }
}

describe('one thing broken on one node', () => {
  test.each(breakages)('$what: $step fails', async (breakage) => {
    const place = { client: environment.clientNode, backend: environment.backendNode, any: environment.node }[
      breakage.at ?? 'any'
    ]
    const there = { ...environment, node: place }
    const outcome = (await tryBreakage(breakage, there)).find(({ id }) => id === breakage.step)
    expect(outcome?.verdict).toBe('failed')
    if (!breakage.eitherEnd) expect(outcome?.failure?.node).toBe(there.node)
    await waitFor('the cluster to be whole again', 20_000, async () =>
      (await judged(breakage.step, there.node)).every(({ verdict }) => verdict === 'passed'),
    )
  })
})

describe("something changed behind the lab's back", () => {
  const verdictOf = async (step: string) =>
    (await judgeRound(spec, await own.source.snapshot(), own.source.live, [step]))[0]?.verdict

  test.each(clusterBreakages)('$what: $step fails', async (breakage) => {
    await breakage.break(own.bench)
    try {
      await waitFor('the step to fail', 20_000, async () => (await verdictOf(breakage.step)) === 'failed')
    } finally {
      await breakage.repair(own.bench)
    }
    await waitFor('the step to pass again', 60_000, async () => (await verdictOf(breakage.step)) === 'passed')
  })
})
