// Lab 5 end to end on the embedded cluster: fails unsolved, and step by step: fails broken, passes
// solved. Its steps are about moments, so each is broken while it is solved and the grader has not
// seen it pass.

import { describe, expect, test } from 'vitest'
import { readDaemonSet } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import {
  chooseImage,
  isForeignImage,
  restartKubeProxyPods,
} from '../../cluster/kube-proxy/rollout.ts'
import { resetLab } from '../../course/lab-solution.ts'
import { webService } from '../../grading/expect-object.ts'
import { judge, judgeRound } from '../../grading/judge.ts'
import {
  type BreakageEnvironment,
  breakages,
  type Lab5Breakage,
  wrongAnswers,
} from './lab-5-breakages.ts'
import { LabTest, passed, RESTORE, testUnsolved, verdictsOf } from './own-cluster.ts'

const own = await LabTest.of(5)
const { lab, spec, solution } = own
let environment: BreakageEnvironment

testUnsolved(own)

async function readEnvironment(): Promise<BreakageEnvironment> {
  const snapshot = await own.snapshot()
  const client = snapshot.find('Pod', 'default', 'client')
  const { address: web, backends } = webService(snapshot)
  const node = client?.spec?.nodeName ?? ''
  const other = backends.find((backend) => backend.node !== node)?.node ?? ''
  return { node, other, web, client: client?.status?.podIP ?? '' }
}

/** Judges a step on a snapshot of the workers, which is all that a breakage can show. */
const judgedOnWorkers = async (id: string) =>
  own.judged(id, await own.snapshotOf((await own.cluster.nodes()).slice(1)))

async function expectFailure({ what, step, elsewhere, ...breakage }: Lab5Breakage): Promise<void> {
  const node = elsewhere ? environment.other : environment.node
  const repair = `${RESTORE}\n${breakage.repair?.(environment) ?? ''}`
  const outcome = await own.whileBroken(
    node,
    breakage.break(environment),
    () => judgedOnWorkers(step),
    { repair },
  )
  expect(outcome?.verdict, what).toBe('failed')
  expect(outcome?.failure?.node, what).toBe(node)
}

/** Their states hold before they are played, and the grader would keep that it has seen them. */
const asksOnly = new Set(['closed', 'not-asked'])

describe('step by step', () => {
  test.each(lab.steps)(
    '$id: fails unsolved and for each single breakage, passes solved',
    async ({ id }) => {
      const { play, cleanup } = solution.steps[id] ?? {}
      const wrong = wrongAnswers[id]
      if (wrong !== undefined) await own.bench.answer(lab.number, id, wrong)
      if (play) {
        if (!asksOnly.has(id)) expect((await judgedOnWorkers(id))?.verdict).toBe('failed')
        await play(own.bench)
      }
      if (id === 'stage') environment = await readEnvironment()
      for (const breakage of breakages) if (breakage.step === id) await expectFailure(breakage)
      const { outcomes } = await judge(spec, own.source, { only: [id] })
      expect(verdictsOf(outcomes)).toEqual(passed([{ id }]))
      await cleanup?.play?.(own.bench)
    },
  )
})

test('every step has something that breaks it', () => {
  const broken = new Set([...breakages.map(({ step }) => step), ...Object.keys(wrongAnswers)])
  expect(lab.steps.map(({ id }) => id).filter((id) => !broken.has(id))).toEqual([])
})

test('at the end every step holds, and a capture earns what needs neither requests nor moments', async () => {
  const { outcomes, snapshot } = await judge(spec, own.source)
  expect(outcomes.filter(({ verdict }) => verdict !== 'passed')).toEqual([])
  const offline = await judgeRound(spec, snapshot, undefined)
  expect(offline.filter(({ verdict }) => verdict === 'could not check')).toEqual([])
  // What needs requests or another moment, and what the shop of the incident has changed; a step
  // about the nodes' state is not here.
  const notInCapture = [
    'closed',
    'forward-rule',
    'exposed',
    'gained-addresses',
    'not-asked',
    'either-mode',
    'own-filter',
    'bound',
  ]
  expect(offline.filter(({ verdict }) => verdict !== 'passed').map(({ id }) => id)).toEqual(
    notInCapture,
  )
})

test('ICMP messages of REJECT are limited, six at once and then one per second; without the limit and as resets they are not', async () => {
  const { node, web } = environment
  const rule = `INPUT -d ${web} -p tcp --dport 9101 -m comment --comment lab-5 -j REJECT`
  const slowest = async (before: string) => {
    await own.bench.onNode(node, before)
    const times = await own.bench.inPod(
      'client',
      // Thirty are more than six and one per second, however slowly the machine sends them.
      `for i in $(seq 30); do
         time=$(curl -s -o /dev/null -w '%{time_total}' http://${web}:9101 || true)
         echo "$time"
         [ "\${time%%.*}" -lt 1 ] || break
       done`,
    )
    return Math.max(...times.trim().split('\n').map(Number))
  }
  expect(await slowest(`iptables -I ${rule}`)).toBeGreaterThan(0.9)
  expect(await slowest('sysctl -qw net.ipv4.icmp_ratelimit=0')).toBeLessThan(0.9)
  const asReset = `sysctl -qw net.ipv4.icmp_ratelimit=1000; iptables -D ${rule}; iptables -I ${rule} --reject-with tcp-reset`
  expect(await slowest(asReset)).toBeLessThan(0.9)
  await own.bench.onNode(node, `iptables -D ${rule} --reject-with tcp-reset`)
})

test("without --ctstate NEW the own filter of step own-filter stops replies over UDP as well: the node's lookups", async () => {
  const { node } = environment
  // A query for the name servers of the root, and the first byte of whatever kube-dns replies.
  const query = '\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\0\\0\\2\\0\\1'
  const lookup = `bash -c "exec 3<>/dev/udp/10.96.0.10/53; printf '${query}' >&3; timeout 2 head -c 1 <&3 | wc -c"`
  const filter = (state: string) =>
    `INPUT -d 10.96.0.0/16 ${state} -m set ! --match-set KUBE-CLUSTER-IP dst,dst -j REJECT`
  const answered = (rule: string) =>
    own.whileBroken(node, `iptables -I ${rule}`, () => own.bench.onNode(node, lookup))
  expect(await answered(filter(''))).toBe('0\n')
  expect(await answered(filter('-m conntrack --ctstate NEW'))).toBe('1\n')
})

test('a reset takes rules and version back from the middle of the lab', async () => {
  const { node, web } = environment
  await own.bench.onNode(
    node,
    `iptables -I INPUT -d ${web} -m comment --comment lab-5 -j REJECT
     iptables -t mangle -I PREROUTING -d ${web} -m comment --comment "lab-5 early" -j DROP`,
  )
  const old = chooseImage(own.cluster, await readDaemonSet(own.bench.client), '1.20')
  await restartKubeProxyPods(own.bench.client, old)
  await resetLab(lab, own.bench)
  expect(isForeignImage(await readDaemonSet(own.bench.client))).toBe(false)
  expect(await own.bench.onNode(node, 'iptables-save | grep -c lab-5 || true')).toBe('0\n')
  const { nodes } = await own.snapshot()
  expect(nodes.map(({ mode }) => mode)).toEqual(nodes.map(() => 'iptables'))
})
