import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { toolsWork } from '../../checks/02-ipvs/equality.ts'
import { keepCounts } from '../../checks/02-ipvs/extra-services-cost.ts'
import { type Capture, readCaptureFolder } from '../../cluster/capture-folder.ts'
import { Failure } from '../../grading/failure.ts'
import { loadSpec } from '../../grading/grader.ts'
import { judgeRound } from '../../grading/judge.ts'
import { readLab } from '../../grading/lab-definition.ts'
import { LabNotes } from '../../grading/lab-notes.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { readSubmission } from '../../instructors/submission/read-submission.ts'
import { SOLVED } from '../instructors/submission/made-submission.ts'
import { madeLiveCluster } from './made-live-cluster.ts'
import { breakFile, flushedCapture, kindCapture } from './solved-capture.ts'

const spec = await loadSpec(readLab(2))

async function verdictsOf(capture: Capture) {
  const outcomes = await judgeRound(spec, new Snapshot(capture), undefined)
  return Object.fromEntries(outcomes.map(({ id, verdict }) => [id, verdict]))
}

const LIVE_ONLY = ['conntrack']
const MOMENTS_PAST = ['iptables-list', 'ipvs-constant', 'scheduler']

test.each([
  ['iptables-save', 'no such chain'],
  ['ipset-save', 'no such set'],
])(
  'what the short commands list must be on every node, not only on the last: %s is empty on the first',
  async (file, actual) => {
    const [{ name } = { name: '' }] = flushedCapture().nodes
    const snapshot = new Snapshot(breakFile(flushedCapture(), name, file, () => ''))
    const context = {
      snapshot,
      nodes: snapshot.nodes,
      notes: new LabNotes(2, snapshot),
      live: madeLiveCluster(),
      asks: false,
      show: () => undefined,
    }
    await expect(async () => toolsWork(context)).rejects.toMatchObject({
      detail: { node: name, actual },
    })
  },
)

test('an agent of lab 5 that is not ready costs nothing on another node than the client’s, which may be down', async () => {
  const { captures, manifest } = await readSubmission(join(SOLVED, 'lab-5-embedded.labgrade'))
  const lab5 = await loadSpec(readLab(5))
  const capture = captures.get(manifest.final ?? '')?.capture
  if (!capture) throw new Error('no final capture')
  const stage = async (changed: Capture) =>
    (await judgeRound(lab5, new Snapshot(changed), undefined, ['stage']))[0]
  expect((await stage(capture))?.verdict).toBe('passed')
  const { items } = new Snapshot(capture)
  const client = items.find(({ kind, metadata }) => kind === 'Pod' && metadata.name === 'client')
  const other = items.find(
    ({ metadata, spec }) =>
      metadata.labels?.app === 'node-agent' && spec?.nodeName !== client?.spec?.nodeName,
  )
  const unready = { ...other, status: { ...other?.status, conditions: [] } }
  const broken = items.map((item) => (item === other ? unready : item))
  const outcome = await stage({ ...capture, objects: { ...capture.objects, items: broken } })
  expect(outcome?.verdict).toBe('passed')
})

describe('captures of genuine clusters', () => {
  test('before the switch, the step about rules passes and those about IPVS fail', async () => {
    const verdicts = await verdictsOf(readCaptureFolder(kindCapture('ipvs-kernel-1-iptables')))
    expect(verdicts).toMatchObject({
      web: 'passed',
      'iptables-list': 'passed',
      ipvs: 'failed',
      flush: 'not yet',
    })
  })

  test.each(['ipvs-kernel-2-switched-not-flushed', 'ipvs-kernel-3-flushed-and-used'])(
    '%s: IPVS runs, and the old chains are found',
    async (stage) => {
      const verdicts = await verdictsOf(readCaptureFolder(kindCapture(stage)))
      const good = [
        'web',
        'ipvs',
        'leftovers',
        'kube-ipvs0',
        'tools',
        'sets',
        'prerouting',
        'virtual-servers',
        'output',
      ]
      for (const id of [...good, 'postrouting', 'pod-to-service', 'masquerade'])
        expect(verdicts[id], id).toBe('passed')
      for (const id of [...LIVE_ONLY, ...MOMENTS_PAST])
        expect(verdicts[id], id).toBe('not applicable')
      expect(verdicts.flush).toBe('failed')
    },
  )

  test('the first step requires a mode of every node, because later steps compare counts of that mode', async () => {
    const capture = readCaptureFolder(kindCapture('ipvs-kernel-1-iptables'))
    const silent = capture.nodes.map(({ files, ...node }, index) => ({
      ...node,
      files: new Map(
        [...files].filter(([file]) => index !== 1 || !/proxyMode|kube-proxy\.log/.test(file)),
      ),
    }))
    const outcomes = await judgeRound(
      spec,
      new Snapshot({ ...capture, nodes: silent }),
      undefined,
      ['web'],
    )
    expect(outcomes).toMatchObject([{ verdict: 'failed', failure: { node: silent[1]?.name } }])
  })

  test('rules are not counted before kube-proxy has completed its first sync in the new mode', async () => {
    const files = (stage: string) => readCaptureFolder(kindCapture(stage))
    const good = files('ipvs-kernel-2-switched-not-flushed')
    const before = files('ipvs-kernel-1-iptables')
    const late = good.nodes.map((node) => {
      const rules = before.nodes.find(({ name }) => name === node.name)?.files.get(RULES) ?? ''
      return node.name === NODE ? { ...node, files: new Map(node.files).set(RULES, rules) } : node
    })
    const countedIn = (capture: Capture) => {
      const snapshot = new Snapshot(capture)
      const notes = new LabNotes(2, snapshot)
      const count = () =>
        keepCounts({
          snapshot,
          nodes: snapshot.nodes,
          notes,
          live: undefined,
          asks: false,
          show: () => {},
        })
      return { notes, count }
    }
    const settled = countedIn(good)
    settled.count()
    expect(settled.notes.hasNews).toBe(true)
    const syncing = countedIn({ ...good, nodes: late })
    expect(syncing.count).toThrow(Failure)
    expect(syncing.notes.hasNews).toBe(false)
  })

  test("a kernel without IPVS is recognised by kube-proxy's log", async () => {
    const capture = readCaptureFolder(kindCapture('ipvs-asked-but-kernel-lacks-it'))
    const outcomes = await judgeRound(spec, new Snapshot(capture), undefined)
    const { verdict, failure } = outcomes.find(({ id }) => id === 'ipvs') ?? {}
    expect(verdict).toBe('failed')
    expect(failure?.actual).toContain("Can't use the IPVS proxier")
    expect(failure?.hint).toContain('kernel')
  })

  test('after make flush-nat, the flush step passes and the step before it is no longer applicable', async () => {
    expect(await verdictsOf(flushedCapture())).toMatchObject({
      flush: 'passed',
      leftovers: 'not applicable',
    })
  })
})

const NODE = 'k8s-guide-worker2'
const without = (pattern: RegExp) => (text: string) => {
  const lines = text.split('\n')
  const at = lines.findIndex((line) => pattern.test(line))
  return lines.filter((_line, index) => index !== at).join('\n')
}
const swapped = (first: RegExp) => (text: string) => {
  const lines = text.split('\n')
  const at = lines.findIndex((line) => first.test(line))
  const pair = lines.slice(at, at + 2)
  return [...lines.slice(0, at), pair[1], pair[0], ...lines.slice(at + 2)].join('\n')
}
const RULES = 'iptables-save'
const SETS = 'ipset-save'
const SERVERS = 'ipvsadm-save'
const LINKS = 'ip-addr.json'

/** One thing broken on one node of a good capture, and the step that must name it. */
const breakages: [what: string, step: string, file: string, edit: (text: string) => string][] = [
  [
    'the masquerade rule of KUBE-SERVICES deleted',
    'prerouting',
    RULES,
    without(/-A KUBE-SERVICES ! -s/),
  ],
  [
    'the accept rule of KUBE-SERVICES deleted',
    'prerouting',
    RULES,
    without(/-A KUBE-SERVICES .*-j ACCEPT/),
  ],
  ['two rules of KUBE-SERVICES swapped', 'prerouting', RULES, swapped(/-A KUBE-SERVICES ! -s/)],
  [
    'the Pod range in KUBE-SERVICES altered',
    'prerouting',
    RULES,
    (text) => text.replace('! -s 10.244.0.0/16', '! -s 10.245.0.0/16'),
  ],
  ['the jump of PREROUTING deleted', 'prerouting', RULES, without(/-A PREROUTING .*KUBE-SERVICES/)],
  [
    'the jump of PREROUTING moved down',
    'prerouting',
    RULES,
    swapped(/-A PREROUTING .*KUBE-SERVICES/),
  ],
  ['the jump of OUTPUT deleted', 'output', RULES, without(/-A OUTPUT .*portals" -j KUBE-SERVICES/)],
  [
    'the jump of OUTPUT moved down',
    'output',
    RULES,
    swapped(/-A OUTPUT -m comment --comment "kubernetes service portals"/),
  ],
  [
    'another mark',
    'output',
    RULES,
    (text) =>
      text.replace(
        '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000',
        '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x2000/0x2000',
      ),
  ],
  ['the mark rule deleted', 'output', RULES, without(/-A KUBE-MARK-MASQ /)],
  [
    'the jump of POSTROUTING deleted',
    'postrouting',
    RULES,
    without(/-A POSTROUTING .*KUBE-POSTROUTING/),
  ],
  [
    'the jump of POSTROUTING moved down',
    'postrouting',
    RULES,
    swapped(/-A POSTROUTING .*KUBE-POSTROUTING/),
  ],
  ['the hairpin rule deleted', 'postrouting', RULES, without(/KUBE-LOOP-BACK dst,dst,src/)],
  [
    'the last masquerade deleted',
    'postrouting',
    RULES,
    without(/-A KUBE-POSTROUTING .*--random-fully/),
  ],
  ['--random-fully lost', 'postrouting', RULES, (text) => text.replace(' --random-fully', '')],
  [
    'a stale chain of iptables mode',
    'flush',
    RULES,
    (text) => text.replace(':KUBE-SERVICES', ':KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]\n:KUBE-SERVICES'),
  ],
  ['a forward rule deleted', 'flush', RULES, without(/-A KUBE-FORWARD /)],
  ['a member of KUBE-CLUSTER-IP removed', 'sets', SETS, without(/add KUBE-CLUSTER-IP .*,tcp:80$/)],
  [
    'a member added to KUBE-CLUSTER-IP',
    'sets',
    SETS,
    (text) => `${text}add KUBE-CLUSTER-IP 10.96.7.7,tcp:80\n`,
  ],
  ['a set destroyed', 'sets', SETS, without(/create KUBE-NODE-PORT-TCP /)],
  ['a member of KUBE-LOOP-BACK removed', 'postrouting', SETS, without(/add KUBE-LOOP-BACK /)],
  [
    "another node's endpoint in KUBE-LOOP-BACK",
    'postrouting',
    SETS,
    (text) => `${text}add KUBE-LOOP-BACK 10.244.1.77,tcp:80,10.244.1.77\n`,
  ],
  ['a real server removed', 'virtual-servers', SERVERS, without(/^-a .*:80 /)],
  [
    'a real server added',
    'virtual-servers',
    SERVERS,
    (text) => text.replace(/^(-a (-t \S+:80) -r) \S+ .*$/m, '$&\n$1 10.244.1.99:80 -m -w 1'),
  ],
  ['a weight changed', 'virtual-servers', SERVERS, (text) => text.replace(/-w 1$/m, '-w 5')],
  [
    'another forwarding method',
    'virtual-servers',
    SERVERS,
    (text) => text.replace(' -m -w 1', ' -g -w 1'),
  ],
  ['another scheduler', 'virtual-servers', SERVERS, (text) => text.replace('-s rr', '-s wlc')],
  [
    'a virtual server too many',
    'virtual-servers',
    SERVERS,
    (text) => `${text}-A -t 10.96.9.9:80 -s rr\n`,
  ],
  [
    'an address of kube-ipvs0 removed',
    'kube-ipvs0',
    LINKS,
    (text) => editLink(text, (link) => link.addr_info.pop()),
  ],
  [
    'an address added to kube-ipvs0',
    'kube-ipvs0',
    LINKS,
    (text) =>
      editLink(text, (link) =>
        link.addr_info.push({ family: 'inet', local: '10.96.3.3', prefixlen: 32 }),
      ),
  ],
  ['kube-ipvs0 up', 'kube-ipvs0', LINKS, (text) => editLink(text, (link) => link.flags.push('UP'))],
  [
    'kube-ipvs0 answering ARP',
    'kube-ipvs0',
    LINKS,
    (text) => editLink(text, (link) => link.flags.splice(link.flags.indexOf('NOARP'), 1)),
  ],
  ['another proxier', 'ipvs', 'proxyMode', () => 'iptables'],
]

interface RawLink {
  ifname: string
  flags: string[]
  addr_info: { family: string; local: string; prefixlen: number }[]
}

function editLink(text: string, edit: (link: RawLink) => void): string {
  const links: RawLink[] = JSON.parse(text)
  for (const link of links) if (link.ifname === 'kube-ipvs0') edit(link)
  return JSON.stringify(links)
}

const good = flushedCapture()
const goodSnapshot = new Snapshot(good)
const before = await judgeRound(spec, goodSnapshot, undefined)

test.each(breakages)('%s: %s fails', async (_what, step, file, edit) => {
  const outcomes = await judgeRound(
    spec,
    new Snapshot(breakFile(good, NODE, file, edit), goodSnapshot),
    undefined,
  )
  expect(before.find(({ id }) => id === step)?.verdict).toBe('passed')
  const { verdict, failure } = outcomes.find(({ id }) => id === step) ?? {}
  expect(verdict).toBe('failed')
  expect(failure?.node).toBe(NODE)
  const newlyFailed = outcomes.filter(
    ({ id, verdict }) =>
      verdict === 'failed' && before.find((other) => other.id === id)?.verdict !== 'failed',
  )
  expect(newlyFailed.map(({ id }) => id)).toEqual([step])
})

test.each([
  ['iptables-save', () => '*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES'],
  ['ipset-save', () => 'add NOSUCHSET \u0000\u001b[31m'],
  ['ipvsadm-save', () => 'IP Virtual Server version'],
  ['ip-addr.json', () => '[{"ifname":'],
])('a node whose %s cannot be read is trouble, which costs nothing', async (file, edit) => {
  const verdicts = await verdictsOf(breakFile(flushedCapture(), NODE, file, edit))
  const unchecked = Object.values(verdicts).filter((verdict) => verdict === 'could not check')
  expect(unchecked.length).toBeGreaterThan(5)
  expect(Object.values(verdicts)).not.toContain('failed')
})
