import { describe, expect, test } from 'vitest'
import { readCaptureFolder } from '../../cluster/capture-folder.ts'
import { expectMode, expectNode, expectNodes } from '../../grading/expect-node.ts'
import { Failure, type FailureDetail, NotApplicable } from '../../grading/failure.ts'
import type { HttpReply } from '../../grading/http-requests.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { expectAnswered } from '../../grading/traffic.ts'
import { breakFile, flushedCapture, kindCapture } from './solved-capture.ts'

const good = flushedCapture()
const NODE = 'k8s-guide-worker'
const MASQUERADE = ['--set-xmark 0x4000/0x4000', '--set-xmark 0x9/0x9'] as const

const nodesOf = (capture = good) => new Snapshot(capture).nodes
const broken = (file: string, edit: (text: string) => string) => nodesOf(breakFile(good, NODE, file, edit))

function failureOf(assertion: () => void): FailureDetail | undefined {
  try {
    assertion()
  } catch (error) {
    if (error instanceof Failure) return error.detail
    throw error
  }
  return undefined
}

describe('expectations of nodes', () => {
  test.each<[string, () => void]>([
    ['mode', () => expectNodes(nodesOf()).runMode('ipvs')],
    ['tools', () => expectNodes(nodesOf()).run({ ipset: 'ipset-save' }, 'ipset list -n')],
    ['sets', () => expectNodes(nodesOf()).sets('KUBE-CLUSTER-IP').equalPrediction('ipvs', 'all ClusterIPs')],
    ['first jump', () => expectNodes(nodesOf()).chain('nat PREROUTING').jumpsFirstTo('KUBE-SERVICES')],
    ['first rule', () => expectNodes(nodesOf()).chain('nat KUBE-MARK-MASQ').beginsWith('MARK', MASQUERADE[0])],
    ['virtual servers', () => expectNodes(nodesOf()).virtualServers().equalPrediction('ipvs', 'one each')],
    ['link', () => expectNodes(nodesOf()).link('kube-ipvs0').equalPrediction('ipvs', 'every ClusterIP')],
    ['no address', () => expectNodes(nodesOf()).noInterfaceHas(new Set(['192.0.2.77']), 'such address')],
  ])('%s: passes if it holds', (_what, assertion) => {
    expect(failureOf(assertion)).toBeUndefined()
  })

  test('a missing member is reported with the node, the command and the expected line', () => {
    const nodes = broken('ipset-save', (text) => text.replace(/^add KUBE-CLUSTER-IP 10\.96\.0\.1,tcp:443.*\n/m, ''))
    const failure = failureOf(() =>
      expectNodes(nodes).sets('KUBE-CLUSTER-IP').equalPrediction('ipvs', 'all ClusterIPs'),
    )
    expect(failure).toMatchObject({
      node: NODE,
      inspect: `make exec NODE=${NODE} CMD='ipset list KUBE-CLUSTER-IP'`,
      expected: 'all ClusterIPs',
      differences: [{ kind: 'missing', expected: expect.stringContaining('10.96.0.1,tcp:443') }],
    })
  })

  test('a part contains only its own sets, and can be combined with another part', () => {
    const nodes = broken('ipset-save', (text) => text.replace(/^add KUBE-CLUSTER-IP .*\n/m, ''))
    const ports = expectNodes(nodes).sets('KUBE-NODE-PORT-TCP')
    expect(failureOf(() => ports.equalPrediction('ipvs', 'the node ports'))).toBeUndefined()
    expect(
      failureOf(() => ports.and(expectNodes(nodes).sets('KUBE-CLUSTER-IP')).equalPrediction('ipvs', 'both'))?.inspect,
    ).toBe(`make exec NODE=${NODE} CMD='ipset list KUBE-NODE-PORT-TCP; ipset list KUBE-CLUSTER-IP'`)
    const excepted = expectNodes(nodes).setsExcept(['KUBE-CLUSTER-IP'], 'KUBE-LOOP-BACK')
    expect(failureOf(() => excepted.equalPrediction('ipvs', 'the others'))).toBeUndefined()
  })

  test('a missing rule is reported as a MISSING line, an altered one with its text', () => {
    const without = broken('iptables-save', (text) => text.replaceAll('--match-set KUBE-CLUSTER-IP dst,dst', '-p tcp'))
    const said = { missing: 'no rule matches against the set' }
    expect(
      failureOf(() =>
        expectNodes(without).chain('nat KUBE-SERVICES').hasRule('--match-set KUBE-CLUSTER-IP dst,dst', said),
      ),
    ).toMatchObject({
      node: NODE,
      inspect: `make exec NODE=${NODE} CMD='iptables -t nat -S KUBE-SERVICES'`,
      actual: 'no rule with --match-set KUBE-CLUSTER-IP dst,dst',
      differences: [{ kind: 'missing', text: said.missing, expected: expect.stringContaining('-A KUBE-SERVICES … ') }],
    })
    const altered = broken('iptables-save', (text) => text.replaceAll(MASQUERADE[0], MASQUERADE[1]))
    expect(
      failureOf(() => expectNodes(altered).chain('nat KUBE-MARK-MASQ').beginsWith('MARK', MASQUERADE[0]))?.actual,
    ).toContain(MASQUERADE[1])
    const emptied = broken('iptables-save', (text) => text.replace(/^-A KUBE-MARK-MASQ .*\n/m, ''))
    expect(
      failureOf(() => expectNodes(emptied).chain('nat KUBE-MARK-MASQ').beginsWith('MARK', MASQUERADE[0]))?.actual,
    ).toBe('an empty chain')
  })

  test("a failure on one node is reported even if another node can't be read", () => {
    const nodes = broken('iptables-save', (text) => text.replace(/^-A KUBE-MARK-MASQ .*\n/m, ''))
    const [first, last] = [nodes.find(({ name }) => name === NODE), nodes.find(({ name }) => name !== NODE)]
    if (!first || !last) throw new Error('the capture has fewer than two nodes')
    const unreadable = new Snapshot(breakFile(good, last.name, 'iptables-save', () => 'no rules')).node(last.name)
    const chain = expectNodes([first, unreadable]).chain('nat KUBE-MARK-MASQ')
    expect(failureOf(() => chain.beginsWith('MARK', MASQUERADE[0]))?.node).toBe(NODE)
  })

  test('a tool that did not run, an unexpected address, faults of a link and a missing virtual server are reported', () => {
    const [node] = nodesOf()
    if (!node) throw new Error('the capture has no node')
    expect(
      failureOf(() => expectNode(node).run({ ipset: 'ipset-save', tcpdump: 'tcpdump' }, 'tcpdump --version'))?.actual,
    ).toBe('tcpdump did not run')
    expect(failureOf(() => expectNode(node).noInterfaceHas(new Set(['10.96.0.1']), 'ClusterIP'))).toMatchObject({
      actual: 'kube-ipvs0 has 10.96.0.1',
      differences: [{ kind: 'stale', actual: '10.96.0.1 dev kube-ipvs0' }],
    })
    const faults = () => ['it is UP', undefined]
    expect(failureOf(() => expectNode(node).link('kube-ipvs0').hasNoFault(faults, 'a link that is down'))?.actual).toBe(
      'it is UP',
    )
    expect(failureOf(() => expectNode(node).virtualServerAt('192.0.2.1', 80))?.expected).toBe(
      'a virtual server 192.0.2.1:80',
    )
  })

  test('every request must be answered', () => {
    const reply = (status: number): HttpReply => ({
      index: 0,
      status,
      port: 1,
      connects: 1,
      code: 0,
      error: '',
      line: '',
      resent: 0,
    })
    const sent = {
      snapshot: new Snapshot(good),
      node: NODE,
      sender: 'node',
      target: { address: '10.96.0.1', port: 443 },
    } as const
    const answered = (...statuses: number[]) => failureOf(() => expectAnswered(statuses.map(reply), 2, sent))
    expect(answered(200, 200)).toBeUndefined()
    expect(answered(200, 503)).toMatchObject({
      node: NODE,
      inspect: `make exec NODE=${NODE} CMD='curl -sS --max-time 5 10.96.0.1:443'`,
      actual: 'answers with status 200, 503',
      differences: [{ kind: 'wrong', text: expect.stringContaining('10.96.0.1') }],
      next: `make trace FROM=host TO=10.96.0.1:443 NODE=${NODE}`,
    })
    expect(answered(200)?.actual).toBe('answers with status 200')
    expect(answered()?.actual).toBe('answers with status none')
    const elsewhere = { ...sent, node: 'a node that was not read' }
    expect(
      failureOf(() => expectAnswered([reply(200)], 1, elsewhere)),
      'no node is needed to say so',
    ).toBeUndefined()
  })

  test('a step about a mode is not applicable to a capture in another mode, and fails on a cluster in another mode', () => {
    const inIptables = { nodes: nodesOf(readCaptureFolder(kindCapture('ipvs-kernel-1-iptables'))), live: undefined }
    expect(() => expectMode(inIptables, 'ipvs')).toThrow(NotApplicable)
    expect(failureOf(() => expectNodes(inIptables.nodes).runMode('ipvs', { hint: 'make ipvs' }))).toMatchObject({
      inspect: expect.stringContaining('/proxyMode'),
      expected: 'kube-proxy in ipvs mode',
      actual: 'iptables',
      hint: 'make ipvs',
    })
  })
})
