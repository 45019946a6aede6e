import { describe, expect, test } from 'vitest'
import { type Capture, readCaptureFolder } from '../../cluster/capture-folder.ts'
import { webService } from '../../grading/expect-object.ts'
import { Failure } from '../../grading/failure.ts'
import { loadSpec } from '../../grading/grader.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { LabNotes } from '../../grading/lab-notes.ts'
import { type Sender, tracedTo } from '../../grading/packet-trace.ts'
import { Snapshot, stateOf } from '../../grading/snapshot.ts'
import { breakFile, flushedCapture, kindCapture } from './solved-capture.ts'

const NODE = 'k8s-guide-worker'
const NODES = ['k8s-guide-control-plane', NODE, 'k8s-guide-worker2']
const pod: Sender = { pod: '10.244.1.250' }

/**
 * Where a packet to the Service web ends on the worker, by a capture with some lines of a file
 * taken out or changed.
 */
function endOn(
  capture: Capture,
  file: string,
  edit: (text: string) => string,
  sender: Sender = pod,
): string {
  const snapshot = new Snapshot(breakFile(capture, NODE, file, edit))
  return tracedTo(snapshot.node(NODE), sender, webService(snapshot)).text
}

const without = (pattern: RegExp) => (text: string) =>
  text
    .split('\n')
    .filter((line) => !pattern.test(line))
    .join('\n')

describe('where a broken packet stops, in iptables mode', () => {
  const capture = readCaptureFolder(kindCapture('ipvs-kernel-1-iptables'))
  const { address, port } = webService(new Snapshot(capture))
  const rules = stateOf(new Snapshot(capture).node(NODE)).iptables.get('nat')
  const jump = rules
    ?.get('KUBE-SERVICES')
    ?.rules.find(({ spec }) => / -j KUBE-SVC/.test(spec) && spec.includes(address))
  const chain = / -j (\S+)/.exec(jump?.spec ?? '')?.[1] ?? ''
  const endpoints =
    rules?.get(chain)?.rules.flatMap(({ spec }) => / -j (KUBE-SEP-\S+)/.exec(spec)?.[1] ?? []) ?? []

  test('a chain of the Service without its rules', () => {
    expect(chain).toMatch(/^KUBE-SVC-/)
    expect(endOn(capture, 'iptables-save', without(new RegExp(`-A ${chain} `)))).toBe(
      `the packet 10.244.1.250 → ${address}:${port}/tcp reaches ${chain} on ${NODE} and finds no endpoint chain`,
    )
  })

  test('chains of endpoints without the rule that translates', () => {
    expect(endpoints).toHaveLength(2)
    const end = endOn(capture, 'iptables-save', without(/-A KUBE-SEP-.* -j DNAT/))
    expect(end).toMatch(
      new RegExp(
        `reaches (${endpoints.join('|')}) on ${NODE} and finds no rule that translates it`,
      ),
    )
  })

  test('one chain of two: the share that is lost is reported with the rule', () => {
    const drop = (text: string) =>
      text.replace(new RegExp(`-A ${endpoints[0]} .* -j DNAT .*`), `-A ${endpoints[0]} -j DROP`)
    expect(endOn(capture, 'iptables-save', drop)).toMatch(
      /goes to \S+ .*, but 50 % are stopped by nat KUBE-SEP-/,
    )
  })

  test('no rule for the address, and no jump to KUBE-SERVICES', () => {
    expect(
      endOn(capture, 'iptables-save', without(new RegExp(`-A KUBE-SERVICES .*-d ${address}/32 `))),
    ).toContain(`reaches KUBE-SERVICES on ${NODE} and finds no rule for TCP ${address}:${port}`)
    const noJump = without(/-A (PREROUTING|OUTPUT) .* -j KUBE-SERVICES/)
    expect(endOn(capture, 'iptables-save', noJump, 'node')).toContain(
      `never reaches KUBE-SERVICES on ${NODE}: no jump leads there`,
    )
  })

  test('a rule that rejects it', () => {
    const reject = (text: string) =>
      text.replace(
        /^-A FORWARD /m,
        `-A FORWARD -p tcp -j REJECT --reject-with icmp-port-unreachable\n-A FORWARD `,
      )
    expect(endOn(capture, 'iptables-save', reject)).toContain(
      `is rejected on ${NODE} by filter FORWARD: -A FORWARD -p tcp`,
    )
  })
})

describe('where a broken packet stops, in IPVS mode', () => {
  const capture = flushedCapture()
  const { address, port } = webService(new Snapshot(capture))
  const key = `TCP ${address}:${port}`
  const realServers = new RegExp(`^-a -t ${address}:${port} `)

  test('a packet on a correct node goes to both backends', () => {
    const end = tracedTo(new Snapshot(capture).node(NODE), pod, { address, port })
    expect(end).toMatchObject({
      masqueraded: false,
      backends: [expect.any(String), expect.any(String)],
    })
    expect(end.text).toMatch(
      new RegExp(
        `^by the rules of ${NODE}, the packet .* goes to \\S+ or \\S+ with its source kept$`,
      ),
    )
  })

  test('the address is gone from kube-ipvs0', () =>
    expect(
      endOn(capture, 'ip-addr.json', (text) => text.replaceAll(`"${address}"`, '"10.99.99.99"')),
    ).toContain(`never reaches IPVS on ${NODE}: ${address} is not an address of kube-ipvs0`))

  test('the virtual server is gone, or has no real server', () => {
    const noServer = without(new RegExp(`-[Aa] -t ${address}:${port} `))
    expect(endOn(capture, 'ipvsadm-save', noServer)).toContain(
      `reaches IPVS on ${NODE} and finds no virtual server ${key}`,
    )
    expect(endOn(capture, 'ipvsadm-save', without(realServers))).toContain(
      `reaches the virtual server ${key} on ${NODE} and finds no real server`,
    )
    const weightless = (text: string) =>
      text.replaceAll(new RegExp(`${realServers.source}(.*) -w 1$`, 'gm'), (line) =>
        line.replace(/1$/, '0'),
      )
    expect(endOn(capture, 'ipvsadm-save', weightless)).toContain(
      'finds no real server with a weight above 0',
    )
  })

  const noAddress = (text: string) => text.replaceAll(`"${address}"`, '"10.99.99.99"')
  test.each([
    ['pod-to-service', 'ip-addr.json', noAddress, `${address} is not an address of kube-ipvs0`],
    ['masquerade', 'ipvsadm-save', without(realServers), 'finds no real server'],
  ])('step %s reports it', async (id, file, edit, sentence) => {
    const spec = await loadSpec(readLab(2))
    const broken = NODES.reduce((whole, node) => breakFile(whole, node, file, edit), capture)
    const snapshot = new Snapshot(broken)
    const context = {
      snapshot,
      nodes: snapshot.nodes,
      live: undefined,
      notes: new LabNotes(2, snapshot),
      asks: false,
      show: () => {},
    }
    const failure = await Promise.resolve()
      .then(() => spec.steps.find((step) => step.id === id)?.check(context))
      .catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(Failure)
    expect((failure as Failure).detail.actual).toContain(sentence)
  })
})
