import { describe, expect, test } from 'vitest'
import { expectNode } from '../../grading/expect-node.ts'
import { expectField, expectReadyPod, expectSpread } from '../../grading/expect-object.ts'
import { expectFound, Failure, type FailureDetail } from '../../grading/failure.ts'
import type { LiveCluster } from '../../grading/live-cluster.ts'
import { HookProbes } from '../../grading/packet-counters.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { expectListener, expectLogged } from '../../grading/traffic.ts'
import { breakFile, flushedCapture } from './solved-capture.ts'

const NODE = 'k8s-guide-worker'
const told = { inspect: 'kubectl get pods', expected: 'a Pod' }

async function failureOf(assertion: () => unknown): Promise<FailureDetail | undefined> {
  try {
    await assertion()
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return error.detail
  }
  return undefined
}

/** A cluster whose nodes print this. */
const printing = (stdout: string) =>
  ({ look: async () => ({ stdout, stderr: '', exitCode: 0 }) }) as unknown as LiveCluster

describe('expectations of API objects', () => {
  test('a value that was found is returned', async () => {
    expect(expectFound(0, told)).toBe(0)
    expect(await failureOf(() => expectFound(undefined, told))).toMatchObject({ ...told, actual: 'none' })
  })

  test('a field must have the expected value; the command shows the field', async () => {
    const field = (holds: boolean) => expectField('service web', 'nodePort', { holds, expected: '30000', actual: '80' })
    expect(await failureOf(() => field(true))).toBeUndefined()
    expect(await failureOf(() => field(false))).toMatchObject({
      inspect: 'kubectl get service web -o yaml | grep -A 2 nodePort',
      actual: '80',
    })
  })

  test('a Pod must be ready, with an address and a node', async () => {
    const pod = (status: string) => ({
      kind: 'Pod',
      metadata: { name: 'client' },
      spec: { nodeName: NODE },
      status: { phase: 'Running', podIP: '10.244.1.2', conditions: [{ type: 'Ready', status }] },
    })
    expect(expectReadyPod(pod('True'), 'client', told)).toMatchObject({ address: '10.244.1.2', node: NODE })
    expect((await failureOf(() => expectReadyPod(pod('False'), 'client', told)))?.actual).toContain('not ready')
    expect((await failureOf(() => expectReadyPod(undefined, 'client', told)))?.actual).toBe('no Pod client')
  })

  test('endpoints must be distributed as expected', async () => {
    const counts = new Map([
      ['a', 3],
      ['b', 1],
    ])
    expect(await failureOf(() => expectSpread(counts, ([a, b]) => a !== b, told))).toBeUndefined()
    expect((await failureOf(() => expectSpread(counts, ([a, b]) => a === b, told)))?.actual).toBe('3 on a, 1 on b')
    expect((await failureOf(() => expectSpread(new Map(), () => false, told)))?.actual).toBe('no ready Pod')
  })
})

describe('expectations of traffic', () => {
  test('the first unexpected request in a log is reported', async () => {
    const logged = [{ client: '10.244.1.2' }, { client: '10.244.2.1' }]
    const tell = ({ client }: { client: string }) => ({ expected: 'the Pod', actual: client })
    expect(await failureOf(() => expectLogged(logged, () => true, tell))).toBeUndefined()
    const wrong = await failureOf(() => expectLogged(logged, ({ client }) => client === '10.244.1.2', tell))
    expect(wrong).toMatchObject({ actual: '10.244.2.1', inspect: expect.stringContaining('kubectl logs') })
  })

  test('a process must listen on the expected addresses', async () => {
    const place = { node: NODE, port: 9100 }
    const isAny = (addresses: readonly string[]) => addresses.includes('0.0.0.0')
    const listening = (stdout: string) =>
      failureOf(() => expectListener(printing(stdout), place, isAny, { expected: 'x' }))
    expect(await listening('LISTEN 0 511 0.0.0.0:9100 0.0.0.0:* \n')).toBeUndefined()
    expect(await listening('LISTEN 0 511 172.18.0.3:9100 0.0.0.0:* \n')).toMatchObject({
      node: NODE,
      actual: 'it listens on 172.18.0.3',
    })
    expect((await listening(''))?.actual).toBe('nothing listens on port 9100')
  })
})

describe('expectations of rules', () => {
  const probes = new HookProbes('probe', 10256)
  const rule = (chain: string, port = 10256) =>
    `-A ${chain} -p tcp -m tcp --dport ${port} --tcp-flags FIN,SYN,RST,ACK SYN -m comment --comment probe`
  const mangle = (rules: readonly string[]) =>
    `*mangle\n${['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'].map((chain) => `:${chain} ACCEPT [0:0]`).join('\n')}\n${rules.join('\n')}\nCOMMIT\n`
  const nodeWith = (rules: readonly string[]) =>
    new Snapshot(
      breakFile(
        flushedCapture(),
        NODE,
        'iptables-save',
        (text) => `${text.replace(/\*mangle\n[\s\S]*?COMMIT\n/, '')}${mangle(rules)}`,
      ),
    ).node(NODE)

  test('a probe must be in every hook, and all must match the same packets', async () => {
    const all = ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']
    const probed = (rules: readonly string[]) => failureOf(() => probes.expectInEveryHook(nodeWith(rules)))
    expect(await probed(all.map((chain) => rule(chain)))).toBeUndefined()
    expect(await probed(all.slice(1).map((chain) => rule(chain)))).toMatchObject({ actual: 'none in PREROUTING' })
    const odd = await probed(all.map((chain) => rule(chain, chain === 'INPUT' ? 80 : 10256)))
    expect(odd).toMatchObject({
      actual: expect.stringContaining('-A INPUT'),
      hint: expect.stringContaining('Delete it'),
    })
  })

  test('a jump must be the last rule of its chain', async () => {
    const chain = (rules: readonly string[]) => expectNode(nodeWith(rules)).chain('mangle INPUT').jumpsLastTo('ACCEPT')
    expect(await failureOf(() => chain([rule('INPUT'), '-A INPUT -j ACCEPT']))).toBeUndefined()
    expect(await failureOf(() => chain(['-A INPUT -j ACCEPT', rule('INPUT')]))).toMatchObject({
      actual: 'it is rule 1 of 2',
    })
    expect(await failureOf(() => chain([rule('INPUT')]))).toMatchObject({ actual: 'no such jump' })
  })

  test('no rule may match the test', async () => {
    const none = (rules: readonly string[]) =>
      expectNode(nodeWith(rules)).noRuleWhere(({ spec }) => spec.includes('comment probe'), 'iptables-save', 'none')
    expect(await failureOf(() => none([]))).toBeUndefined()
    expect((await failureOf(() => none([rule('INPUT')])))?.actual).toContain('-A INPUT')
  })
})
