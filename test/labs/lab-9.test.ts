// Lab 9 end to end on the embedded cluster: fails unsolved, and step by step: fails with one thing
// broken on one node, passes solved. A lost request is shown with its client, target and time, and
// what the text says about connections that need IPVS is tried.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { execInPod } from '../../cluster/context/pod-exec.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { judge } from '../../grading/judge.ts'
import { forgetNotes, notesName, readConfigMap, writeNotes } from '../../grading/lab-notes.ts'
import { evidenceKey } from '../../grading/learning-notes.ts'
import { modeOf } from '../../grading/snapshot.ts'
import { OUTSIDE } from '../../host/outside.ts'
import { waitFor } from '../../host/wait.ts'
import { breakages, type Lab9Breakage } from './lab-9-breakages.ts'
import { LabTest, passed, verdictsOf } from './own-cluster.ts'

const own = await LabTest.of(9)
const { lab, spec, solution } = own
/** Steps about nftables mode, which User-Mode Linux does not run. */
const OUT_OF_REACH = new Set(['handover'])
const steps = lab.steps.filter(({ id }) => !OUT_OF_REACH.has(id))
const HELD_REQUESTS = readFileSync(join(import.meta.dirname, 'held-requests.pl'), 'utf8')
const STOP = '/tmp/held-requests-stop'
const namespace = 'default'

test('unsolved: no step passes, alone or with the others', async () => {
  await own.expectUnsolved((id) => (OUT_OF_REACH.has(id) ? 'not applicable' : 'failed'))
})

/** No node lacks anything that its mode programs. */
const settled = () =>
  waitFor('every node to follow', 30_000, async () => {
    const { nodes } = await own.snapshot()
    return nodes.every((node) => {
      const mode = modeOf(node)
      if (mode !== 'ipvs' && mode !== 'iptables') return false
      return evaluate(node, mode).differences.every(({ kind }) => kind !== 'missing')
    })
  })

async function expectFailure({ what, step, elsewhere, shows, ...breakage }: Lab9Breakage) {
  const [, canary = '', other = ''] = await own.cluster.nodes()
  const environment = { canary, other }
  const node = elsewhere ? other : canary
  const repair = breakage.repair?.(environment)
  const outcome = await own.whileBroken(
    node,
    breakage.break(environment),
    () => own.judged(step),
    repair === undefined ? {} : { save: 'true', repair },
  )
  expect(outcome?.verdict, what).toBe('failed')
  expect(outcome?.failure?.node, what).toBe(node)
  expect(JSON.stringify(outcome?.failure), what).toMatch(shows)
}

/** Its state is reached by the step before it. */
const isReached = new Set(['lossless'])

async function playStep({ id }: { id: string }) {
  if (!isReached.has(id)) expect((await own.judged(id))?.verdict).toBe('failed')
  const { play, cleanup } = solution.steps[id] ?? {}
  await play?.(own.bench)
  const broken = breakages.filter(({ step }) => step === id)
  if (broken.length > 0) await settled()
  for (const breakage of broken) await expectFailure(breakage)
  const { outcomes } = await judge(spec, own.source, { only: [id] })
  expect(verdictsOf(outcomes)).toEqual(passed([{ id }]))
  await cleanup?.play?.(own.bench)
}

const stepByStep = '$id: fails unsolved and for each single breakage, passes solved'
/** From here on requests are lost: `kube-proxy --cleanup` ends what a node serves. */
const counted = steps.findIndex(({ id }) => id === 'cleanup')

test.each(steps.slice(0, counted))(stepByStep, playStep)

test('requests from outside that one node drops cost the grade', async () => {
  const [, node] = await own.bench.nodes()
  if (!node) throw new Error('the cluster has one node only')
  const rule = 'PREROUTING -p tcp --dport 30091 -m comment --comment lab-9-lost -j DROP'
  const readLog = () => own.bench.onNode(OUTSIDE, 'cat /run/lab-9/log')
  const target = `${node.address}:30091`
  expect(await readLog()).not.toContain('FAILED')
  await own.bench.onNode(node.name, `iptables -t mangle -I ${rule}`)
  await expect
    .poll(readLog)
    .toMatch(new RegExp(`^FAILED \\S+ new ${target.replaceAll('.', '\\.')}: `, 'm'))
  await own.bench.onNode(node.name, `iptables -t mangle -D ${rule}`)
  // The count was kept when it was complete.
  const key = evidenceKey('lossless')
  const { [key]: kept } = (await readConfigMap(own.bench.client, notesName(lab.number))) ?? {}
  await forgetNotes(own.bench.client, lab.number, (name) => name === key)
  const outcome = await own.judged('lossless')
  await writeNotes(own.bench.client, lab.number, { [key]: kept ?? '' })
  expect(outcome?.verdict).toBe('failed')
  expect(outcome?.failure?.actual).toContain(`from the client outside to ${target}`)
})

test.each(steps.slice(counted))(stepByStep, playStep)

test('at the end every step holds, and nothing differs from the prediction', async () => {
  const { outcomes, snapshot } = await judge(spec, own.source)
  expect(verdictsOf(outcomes.filter(({ id }) => !OUT_OF_REACH.has(id)))).toEqual(passed(steps))
  for (const node of snapshot.nodes)
    expect(evaluate(node, 'iptables').differences.map(({ text }) => text)).toEqual([])
})

/** The client of a place on the second node. */
async function clientOn(place: 'pod' | 'node'): Promise<{ node: string; name: string }> {
  const [, node = ''] = await own.cluster.nodes()
  const { items } = await own.bench.client.core.listNamespacedPod({
    namespace,
    labelSelector: `app=traffic,from=${place}`,
  })
  const name = items.find(({ spec: pod }) => pod?.nodeName === node)?.metadata?.name ?? ''
  return { node, name }
}

test('a request that is lost is shown with its client, target and time', async () => {
  const { node, name } = await clientOn('node')
  const rule =
    'OUTPUT -p tcp --dport 80 -m comment --comment lab-9-lost -j REJECT --reject-with tcp-reset'
  const readLog = async () =>
    (await own.bench.client.core.readNamespacedPodLog({ namespace, name })) ?? ''
  await own.bench.onNode(node, `iptables -I ${rule}`)
  const { length } = await readLog()
  await expect
    .poll(async () => (await readLog()).slice(length))
    .toMatch(/^FAILED \d\d:\d\d:\d\d new 10\.96\.\S+:80: /m)
  await own.bench.onNode(node, `iptables -D ${rule}`)
})

/**
 * If this many connections choose one of two endpoints once more, all of them choose the same as
 * before in 1 of 4,096 cases.
 */
const HELD = 12

test('connections that the node opened since stop with what IPVS mode left, and of those that a Pod opened before the ones that change their endpoint; those of Pods since then go on', async () => {
  const { bench } = own
  const { clusterIP } = await bench.service('web')
  const [inPod, onNode] = await Promise.all([clientOn('pod'), clientOn('node')])
  /** How each of the connections from a client has ended, once it is told to stop. */
  const hold = ({ name }: { name: string }) =>
    execInPod(
      bench.client,
      { namespace, name },
      ['perl', '-e', HELD_REQUESTS, `${clusterIP}:80`, `${HELD}`, STOP],
      { timeoutMs: 320_000 },
    ).then(({ stdout }) => stdout.trim().split('\n').sort())
  /**
   * The established connections to web in the network of the Pod, and in that of the node. No other
   * client calls web.
   */
  const established = async () => {
    const count = `ss -Htn state established dst ${clusterIP} | grep -c . || true`
    const outputs = [bench.inPod(inPod.name, count), bench.onNode(onNode.node, count)]
    return (await Promise.all(outputs)).map(Number).join()
  }

  await bench.mode('ipvs')
  const before = hold(inPod)
  await waitFor('the first connections', 20_000, async () => (await established()) === `${HELD},0`)
  await bench.mode('iptables')
  const [since, ofNode] = [hold(inPod), hold(onNode)]
  await waitFor(
    'all connections',
    20_000,
    async () => (await established()) === `${2 * HELD},${HELD}`,
  )
  await bench.flush()
  expect(await ofNode).toEqual(Array(HELD).fill('lost: no answer within 3 s'))
  await bench.inPod(inPod.name, `touch ${STOP}`)
  expect(await since).toEqual(Array(HELD).fill('answered'))
  // Most are reset by the other endpoint; on a busy machine some get no answer at all.
  const ends = (await before).map((end) => end.replace(/:.*/, ''))
  expect(new Set(ends)).toEqual(new Set(['answered', 'lost']))
})
