// Lab 11 end to end on the embedded cluster: fails unsolved, and step by step: fails broken, passes
// solved. Its steps are about moments, so each is broken while it is solved and the grader has not
// seen it pass.

import { describe, expect, test } from 'vitest'
import { resetLab } from '../../course/lab-solution.ts'
import { evaluate } from '../../grading/evaluate.ts'
import { webService } from '../../grading/expect-object.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import { fromPod, sendMarked } from '../../grading/requests.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { waitFor } from '../../host/wait.ts'
import {
  type BreakageEnvironment,
  breakages,
  type Lab11Breakage,
  wrongAnswers,
} from './lab-11-breakages.ts'
import { LabTest, passed, testUnsolved, verdictsOf } from './own-cluster.ts'

const own = await LabTest.of(11)
const { lab, spec, solution } = own
const ZONE = 'topology.kubernetes.io/zone'
let environment: BreakageEnvironment

testUnsolved(own)

async function readEnvironment(): Promise<BreakageEnvironment> {
  const snapshot = await own.snapshot()
  const pod = (name: string) => snapshot.find('Pod', 'default', name)
  const { address: web, backends } = webService(snapshot)
  const [near = '', far = ''] = ['client', 'client-b'].map((name) => pod(name)?.spec?.nodeName)
  const on = (node: string) => backends.find((one) => one.node === node)?.address ?? ''
  const third = backends.find(({ node }) => node !== near && node !== far)?.node ?? ''
  const client = pod('client')?.status?.podIP ?? ''
  return { near, far, client, web, ownPod: on(near), farPod: on(far), zonePod: on(third) }
}

/** Every node holds what follows from the objects. */
const settled = () =>
  waitFor('every node to follow', 20_000, async () => {
    const { nodes } = await own.snapshot()
    return nodes.every((node) => evaluate(node, 'iptables').differences.length === 0)
  })

async function expectFailure({ what, step, far, ...breakage }: Lab11Breakage): Promise<void> {
  const node = far ? environment.far : environment.near
  const texts = breakage.repair && {
    repair: `iptables-restore -c </run/tables\n${breakage.repair(environment)}`,
  }
  const outcome = await own.whileBroken(
    node,
    breakage.break(environment),
    () => own.judged(step),
    texts,
  )
  expect(outcome?.verdict, what).toBe('failed')
  expect(outcome?.failure?.node, what).toBe(node)
}

/** The state that the step everywhere is about is there before it is played. */
const asksOnly = new Set(['everywhere'])

describe('step by step', () => {
  test.each(lab.steps)(
    '$id: fails unsolved and for each single breakage, passes solved',
    async ({ id }) => {
      const { play } = solution.steps[id] ?? {}
      const wrong = wrongAnswers[id]
      if (wrong !== undefined) await own.bench.answer(lab.number, id, wrong)
      if (!asksOnly.has(id)) expect((await own.judged(id))?.verdict).toBe('failed')
      await play?.(own.bench)
      if (id === 'stage') environment = await readEnvironment()
      if (id !== 'places' && id !== 'dns') await settled()
      for (const breakage of breakages) if (breakage.step === id) await expectFailure(breakage)
      const { outcomes } = await judge(spec, own.source, { only: [id] })
      expect(verdictsOf(outcomes)).toEqual(passed([{ id }]))
    },
  )
})

test('at the end every step holds, and a capture of it fails none', async () => {
  const { outcomes, snapshot } = await judge(spec, own.source)
  expect(outcomes.filter(({ verdict }) => verdict !== 'passed')).toEqual([])
  const offline = await judgeRound(spec, snapshot, undefined)
  const verdicts = new Set(offline.map(({ verdict }) => verdict))
  expect([...verdicts].sort()).toEqual(['not applicable', 'passed'])
})

test('a rule about the original destination refuses the client at the ClusterIP, and at no Pod', async () => {
  const { near, client, web, zonePod } = environment
  const rule = `FORWARD -s ${client} -p tcp -m conntrack --ctorigdst ${web} -j REJECT --reject-with tcp-reset`
  const status = async (address: string) =>
    own.bench.inPod(
      'client',
      `curl -s -o /dev/null -w '%{http_code}' --max-time 3 http://${address} || true`,
    )
  const pod = webService(await own.snapshot()).backends[0]?.address ?? zonePod
  expect(await status(web)).toBe('200')
  await own.bench.onNode(near, `iptables -I ${rule}`)
  expect([await status(web), await status(pod)]).toEqual(['000', '200'])
  await own.bench.onNode(near, `iptables -D ${rule}`)
})

test('a short name costs as much as a complete one with a dot at its end', async () => {
  const { near, client } = environment
  const rule = `PREROUTING -s ${client} -d 10.96.0.10 -p udp --dport 53 -m comment --comment lab-11-short`
  await own.bench.onNode(near, `iptables -t raw -I ${rule}`)
  const counted = async (name: string) => {
    await own.bench.inPod('client', `getent ahosts ${name}`)
    const packets = await own.bench.onNode(
      near,
      "iptables -t raw -nvxL PREROUTING | awk '/lab-11-short/ {print $1}'; iptables -t raw -Z",
    )
    return Number(packets)
  }
  const full = 'kubernetes.default.svc.cluster.local'
  expect([await counted('kubernetes'), await counted(`${full}.`), await counted(full)]).toEqual([
    2, 2, 8,
  ])
  await own.bench.onNode(near, `iptables -t raw -D ${rule}`)
})

test('with an older version the steps about its newer fields are not applicable; an older kube-proxy alone is a failure', async () => {
  const { capture } = await own.snapshot()
  const inVersion = (edit: (text: string) => string) =>
    new Snapshot({ ...capture, objects: JSON.parse(edit(JSON.stringify(capture.objects))) })
  const verdict = async (snapshot: Snapshot, id: string) =>
    (await judgeRound(spec, snapshot, undefined, [id]))[0]
  const oldCluster = inVersion((text) => text.replaceAll('v1.34.11', 'v1.30.3'))
  expect(await verdict(oldCluster, 'zone')).toMatchObject({
    verdict: 'not applicable',
    reason: expect.stringContaining('does not know trafficDistribution, which is since 1.31'),
  })
  const middle = inVersion((text) => text.replaceAll('v1.34.11', 'v1.33.6'))
  expect((await verdict(middle, 'same-node'))?.reason).toContain('which is since 1.34')
  // On a capture a failure of a moment is not applicable either, but tells another reason.
  const oldImage = inVersion((text) => text.replaceAll('kube-proxy:v1.34.11', 'kube-proxy:v1.30.3'))
  expect((await verdict(oldImage, 'zone'))?.reason).toContain('1.31 or newer')
  const oldest = inVersion((text) => text.replaceAll('v1.34.11', 'v1.20.2'))
  for (const id of ['local', 'incident'])
    expect(await verdict(oldest, id), id).toMatchObject({
      verdict: 'not applicable',
      reason: expect.stringContaining('does not know internalTrafficPolicy, which is since 1.22'),
    })
})

test('without a Pod on its node, PreferSameNode answers the client from its zone, and no other one', async () => {
  const { near } = environment
  await own.bench.patch('Service', 'web', { spec: { trafficDistribution: 'PreferSameNode' } })
  await own.bench.patch('Node', near, { spec: { unschedulable: true } })
  const there = webService(await own.snapshot()).backends.find(({ node }) => node === near)
  await own.bench.delete('Pod', there?.pod ?? '')
  await own.bench.rolledOut('Deployment', 'web')
  await settled()
  const service = webService(await own.snapshot())
  const client = fromPod('client', { address: environment.client, node: near })
  const { address, port } = service
  const request = { address, port, times: 12 }
  const { logged } = await sendMarked(own.source.live, client, service, [request])
  const nodes = (await logged()).map(({ backend }) => backend.node)
  expect(nodes).toHaveLength(12)
  expect(nodes).not.toContain(environment.far)
  expect(service.backends.map(({ node }) => node)).toContain(environment.far)
  await own.bench.patch('Node', near, { spec: { unschedulable: false } })
})

test('clients in one zone are no stage for this lab', async () => {
  await resetLab(lab, own.bench)
  await solution.steps.stage?.play?.(own.bench)
  await own.bench.patch('Node', environment.far, { metadata: { labels: { [ZONE]: 'zone-a' } } })
  expect((await own.judged('stage'))?.failure?.actual).toBe('both in zone-a')
  await own.bench.patch('Node', environment.far, { metadata: { labels: { [ZONE]: 'zone-b' } } })
  await own.bench.patch('Deployment', 'web', { spec: { replicas: 1 } })
  await own.bench.rolledOut('Deployment', 'web')
  expect((await own.judged('stage'))?.failure?.expected).toContain('ready Pods of web on')
})
