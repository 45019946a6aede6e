import { describe, expect, test } from 'vitest'
import { readCaptureFolder } from '../../cluster/capture-folder.ts'
import { expectMode, expectNode, expectNodes } from '../../grading/expect-node.ts'
import { clusterService, expectReadyPod, webService } from '../../grading/expect-object.ts'
import {
  expectFound,
  Failure,
  type FailureDetail,
  NotApplicable,
  onNode,
} from '../../grading/failure.ts'
import { HookProbes } from '../../grading/packet-counters.ts'
import { expectAnswers, fromNode } from '../../grading/requests.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { expectListener, expectLogged } from '../../grading/traffic.ts'
import { madeLiveCluster } from './made-live-cluster.ts'
import { breakFile, flushedCapture, kindCapture } from './solved-capture.ts'

const good = flushedCapture()
const NODE = 'k8s-guide-worker'
const told = { inspect: 'kubectl get pods', expected: 'a Pod' }

const nodesOf = (capture = good) => new Snapshot(capture).nodes
const broken = (file: string, edit: (text: string) => string) =>
  nodesOf(breakFile(good, NODE, file, edit))

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
const printing = (stdout: string) => madeLiveCluster({ node: () => stdout })

describe('expectations of nodes', () => {
  test.each<[string, () => void]>([
    ['mode', () => expectNodes(nodesOf()).runMode('ipvs')],
    ['tools', () => expectNodes(nodesOf()).run({ ipset: 'ipset-save' }, 'ipset list -n')],
    [
      'sets',
      () =>
        expectNodes(nodesOf()).sets('KUBE-CLUSTER-IP').equalPrediction('ipvs', 'all ClusterIPs'),
    ],
    [
      'first jump',
      () => expectNodes(nodesOf()).chain('nat PREROUTING').jumpsFirstTo('KUBE-SERVICES'),
    ],
    [
      'virtual servers',
      () => expectNodes(nodesOf()).virtualServers().equalPrediction('ipvs', 'one each'),
    ],
    [
      'link',
      () => expectNodes(nodesOf()).link('kube-ipvs0').equalPrediction('ipvs', 'every ClusterIP'),
    ],
  ])('%s: passes if it holds', async (_what, assertion) => {
    expect(await failureOf(assertion)).toBeUndefined()
  })

  test('a missing member is reported with the node, the command and the expected line', async () => {
    const nodes = broken('ipset-save', (text) =>
      text.replace(/^add KUBE-CLUSTER-IP 10\.96\.0\.1,tcp:443.*\n/m, ''),
    )
    const failure = await failureOf(() =>
      expectNodes(nodes).sets('KUBE-CLUSTER-IP').equalPrediction('ipvs', 'all ClusterIPs'),
    )
    expect(failure).toMatchObject({
      node: NODE,
      inspect: `make exec NODE=${NODE} CMD='ipset list KUBE-CLUSTER-IP'`,
      expected: 'all ClusterIPs',
      differences: [{ kind: 'missing', expected: expect.stringContaining('10.96.0.1,tcp:443') }],
    })
  })

  test('a part contains only its own sets, and can be combined with another part', async () => {
    const nodes = broken('ipset-save', (text) => text.replace(/^add KUBE-CLUSTER-IP .*\n/m, ''))
    const ports = expectNodes(nodes).sets('KUBE-NODE-PORT-TCP')
    expect(await failureOf(() => ports.equalPrediction('ipvs', 'the node ports'))).toBeUndefined()
    const both = ports.and(expectNodes(nodes).sets('KUBE-CLUSTER-IP'))
    expect((await failureOf(() => both.equalPrediction('ipvs', 'both')))?.inspect).toBe(
      `make exec NODE=${NODE} CMD='ipset list KUBE-NODE-PORT-TCP; ipset list KUBE-CLUSTER-IP'`,
    )
    const excepted = expectNodes(nodes).setsExcept(['KUBE-CLUSTER-IP'], 'KUBE-LOOP-BACK')
    expect(await failureOf(() => excepted.equalPrediction('ipvs', 'the others'))).toBeUndefined()
  })

  test('a missing rule is reported as a MISSING line', async () => {
    const without = broken('iptables-save', (text) =>
      text.replaceAll('--match-set KUBE-CLUSTER-IP dst,dst', '-p tcp'),
    )
    const output = { missing: 'no rule matches against the set' }
    expect(
      await failureOf(() =>
        expectNodes(without)
          .chain('nat KUBE-SERVICES')
          .hasRule('--match-set KUBE-CLUSTER-IP dst,dst', output),
      ),
    ).toMatchObject({
      node: NODE,
      inspect: `make exec NODE=${NODE} CMD='iptables -t nat -S KUBE-SERVICES'`,
      actual: 'no rule with --match-set KUBE-CLUSTER-IP dst,dst',
      differences: [
        {
          kind: 'missing',
          text: output.missing,
          expected: expect.stringContaining('-A KUBE-SERVICES … '),
        },
      ],
    })
  })

  test("a failure on one node is reported even if another node can't be read", async () => {
    const nodes = broken('ipset-save', (text) => text.replace(/^add KUBE-CLUSTER-IP .*\n/m, ''))
    const [first, last] = [
      nodes.find(({ name }) => name === NODE),
      nodes.find(({ name }) => name !== NODE),
    ]
    if (!first || !last) throw new Error('the capture has fewer than two nodes')
    const unreadable = new Snapshot(breakFile(good, last.name, 'ipset-save', () => 'no sets')).node(
      last.name,
    )
    const sets = expectNodes([first, unreadable]).sets('KUBE-CLUSTER-IP')
    expect(await failureOf(() => sets.equalPrediction('ipvs', 'all ClusterIPs'))).toMatchObject({
      node: NODE,
    })
  })

  test('a tool that did not run, an unexpected address and faults of a link are reported', async () => {
    const [node] = nodesOf()
    if (!node) throw new Error('the capture has no node')
    const tools = { ipset: 'ipset-save', tcpdump: 'tcpdump' }
    expect(await failureOf(() => expectNode(node).run(tools, 'tcpdump --version'))).toMatchObject({
      actual: 'tcpdump did not run',
    })
    expect(await failureOf(() => expectNode(node).noInterfaceHasClusterIP())).toMatchObject({
      actual: 'kube-ipvs0 has 10.96.0.10',
      differences: [{ kind: 'stale', actual: '10.96.0.10 dev kube-ipvs0' }],
    })
    const faults = () => ['it is UP', undefined]
    const link = expectNode(node).link('kube-ipvs0')
    expect(await failureOf(() => link.hasNoFault(faults, 'a link that is down'))).toMatchObject({
      actual: 'it is UP',
    })
  })

  test('every request must be answered', async () => {
    const snapshot = new Snapshot(good)
    const service = webService(snapshot)
    const to = `${service.address}:${service.port}`
    const answered = (...statuses: number[]) => {
      const stdout = statuses.map((status) => `#request\t0\t${status}\t1\t1\t0\t\t\n`).join('')
      return failureOf(() =>
        expectAnswers({ snapshot }, printing(stdout), fromNode(NODE), service, 2),
      )
    }
    expect(await answered(200, 200)).toBeUndefined()
    expect(await answered(200, 503)).toMatchObject({
      node: NODE,
      inspect: `make exec NODE=${NODE} CMD='curl -sS --max-time 5 http://${to}'`,
      actual: 'answers with status 200, 503',
      differences: [{ kind: 'wrong', text: expect.stringContaining(to) }],
      next: `make trace FROM=host TO=${to} NODE=${NODE}`,
    })
    expect((await answered(200))?.actual).toBe('answers with status 200')
    expect((await answered())?.actual).toBe('answers with status none')
  })

  test('a step about a mode is not applicable to a capture in another mode, and fails on a cluster in another mode', async () => {
    const inIptables = {
      nodes: nodesOf(readCaptureFolder(kindCapture('ipvs-kernel-1-iptables'))),
      live: undefined,
    }
    expect(() => expectMode(inIptables, 'ipvs')).toThrow(NotApplicable)
    expect(
      await failureOf(() => expectNodes(inIptables.nodes).runMode('ipvs', { hint: 'make ipvs' })),
    ).toMatchObject({
      inspect: expect.stringContaining('/proxyMode'),
      expected: 'kube-proxy in ipvs mode',
      actual: 'iptables',
      hint: 'make ipvs',
    })
  })
})

describe('expectations of API objects', () => {
  test('a value that was found is returned', async () => {
    expect(expectFound(0, told)).toBe(0)
    expect(await failureOf(() => expectFound(undefined, told))).toMatchObject({
      ...told,
      actual: 'none',
    })
  })

  test('web under another name is a near miss of web, and of no other Service', async () => {
    const items = structuredClone(good.objects.items) as { metadata: { name: string } }[]
    for (const { metadata } of items) if (metadata.name === 'web') metadata.name = 'www'
    const snapshot = new Snapshot({ ...good, objects: { ...good.objects, items } })
    expect((await failureOf(() => webService(snapshot)))?.actual).toContain('but "www"')
    const advice = { expected: 'a Service', hint: 'kubectl apply -f three-services.yaml' }
    expect(await failureOf(() => clusterService(snapshot, 'three-ports', advice))).toMatchObject({
      actual: 'no Service of that name',
      hint: advice.hint,
    })
  })

  test('a Pod must be ready, with an address and a node', async () => {
    const pod = (status: string) => ({
      kind: 'Pod',
      metadata: { name: 'client' },
      spec: { nodeName: NODE },
      status: { phase: 'Running', podIP: '10.244.1.2', conditions: [{ type: 'Ready', status }] },
    })
    expect(expectReadyPod(pod('True'), 'client', told)).toMatchObject({
      address: '10.244.1.2',
      node: NODE,
    })
    expect((await failureOf(() => expectReadyPod(pod('False'), 'client', told)))?.actual).toContain(
      'not ready',
    )
    expect((await failureOf(() => expectReadyPod(undefined, 'client', told)))?.actual).toBe(
      'no Pod client',
    )
  })
})

describe('expectations of traffic', () => {
  test('the first unexpected request in a log is reported', async () => {
    const logged = [{ client: '10.244.1.2' }, { client: '10.244.2.1' }]
    const tell = ({ client }: { client: string }) => ({ expected: 'the Pod', actual: client })
    expect(await failureOf(() => expectLogged(logged, () => true, tell))).toBeUndefined()
    const wrong = await failureOf(() =>
      expectLogged(logged, ({ client }) => client === '10.244.1.2', tell),
    )
    expect(wrong).toMatchObject({
      actual: '10.244.2.1',
      inspect: expect.stringContaining('kubectl logs'),
    })
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
    const probed = (rules: readonly string[]) =>
      failureOf(() => probes.expectInEveryHook(nodeWith(rules)))
    expect(await probed(all.map((chain) => rule(chain)))).toBeUndefined()
    expect(await probed(all.slice(1).map((chain) => rule(chain)))).toMatchObject({
      actual: 'none in PREROUTING',
    })
    const odd = await probed(all.map((chain) => rule(chain, chain === 'INPUT' ? 80 : 10256)))
    expect(odd).toMatchObject({
      actual: expect.stringContaining('-A INPUT'),
      hint: expect.stringContaining('Delete it'),
    })
  })

  test('no rule may match the test', async () => {
    const none = (rules: readonly string[]) =>
      expectNode(nodeWith(rules)).noRuleWhere(
        ({ spec }) => spec.includes('comment probe'),
        'iptables-save',
        'none',
      )
    expect(await failureOf(() => none([]))).toBeUndefined()
    expect((await failureOf(() => none([rule('INPUT')])))?.actual).toContain('-A INPUT')
  })
})

test('the command of a failure can be typed, also for a rule whose comment has an apostrophe or a dollar sign', () => {
  expect(onNode('worker', 'ipset list')).toBe("make exec NODE=worker CMD='ipset list'")
  const typed = onNode('worker', `iptables -D INPUT -m comment --comment "it's $5"`)
  expect(typed).toBe(
    `make exec NODE=worker CMD='iptables -D INPUT -m comment --comment "it'\\''s $$5"'`,
  )
})
