// The steps of lab 7 that kind is needed for, on listings that a kernel gave: what passes, and what
// one broken node says.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import {
  hasSeparateTables,
  mapsLeadToPods,
  nothingBeside,
  nothingOfNftables,
} from '../../checks/07-before-and-after/nftables.ts'
import lab7 from '../../checks/07-before-and-after.check.ts'
import type { KubeClient } from '../../cluster/kube-client.ts'
import type { Check, CheckContext } from '../../grading/check-context.ts'
import { Failure, NotApplicable, Trouble } from '../../grading/failure.ts'
import { LabNotes } from '../../grading/lab-notes.ts'
import { LiveCluster } from '../../grading/live-cluster.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import type { ExecResult } from '../../host/shell-word.ts'
import { madeCluster } from '../cluster/made-cluster.ts'

const fixtures = join(import.meta.dirname, '../../data')
const listing = readFileSync(join(fixtures, 'nft/web-lb-source-ranges-v1.34.json'), 'utf8')
const objects = JSON.parse(
  readFileSync(join(fixtures, 'recordings/objects/web-lb-source-ranges.json'), 'utf8'),
)
const WORKER = 'k8s-guide-worker'

const kubeProxy = [
  {
    kind: 'ConfigMap',
    metadata: { namespace: 'kube-system', name: 'kube-proxy' },
    data: { 'config.conf': 'mode: nftables\nclusterCIDR: 10.244.0.0/16\n' },
  },
  {
    kind: 'Pod',
    metadata: {
      namespace: 'kube-system',
      name: 'kube-proxy-1',
      labels: { 'k8s-app': 'kube-proxy' },
    },
    spec: { nodeName: WORKER, containers: [{ image: 'registry/kube-proxy:v1.34.11' }] },
  },
  {
    kind: 'Pod',
    metadata: { namespace: 'default', name: 'client' },
    spec: { nodeName: WORKER },
    status: {
      phase: 'Running',
      podIP: '10.244.1.9',
      conditions: [{ type: 'Ready', status: 'True' }],
    },
  },
]

interface Scene {
  mode?: string
  rules?: string
  /** The listing, of which each table has its own file on a node. */
  nft?: string
  /** What the kernel reports to the probe. */
  lacks?: string
  notes?: Record<string, string>
  /** The number of requests that never leave the client. */
  unsent?: number
  /** The code of a request to a port that is no Service's. */
  otherPort?: number
}

const NO_RULES = '*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n'

function contextOf({
  mode = 'nftables',
  rules = NO_RULES,
  nft = listing,
  lacks,
  notes = {},
  unsent = 0,
  otherPort = 7,
}: Scene): CheckContext {
  const files = new Map([
    ['proxyMode', mode],
    ['iptables-save', rules],
    ['ip6tables-save', NO_RULES],
    [
      'ip-addr.json',
      JSON.stringify([
        { ifname: 'eth0', addr_info: [{ family: 'inet', local: '172.18.0.3', prefixlen: 16 }] },
      ]),
    ],
    ...(nft === '' ? [] : ([['nft-ip.json', nft]] as const)),
  ])
  const map = { kind: 'ConfigMap', metadata: { namespace: 'default', name: 'lab-7' }, data: notes }
  const items = [...objects.items, ...kubeProxy, map]
  const snapshot = new Snapshot({
    objects: { apiVersion: 'v1', kind: 'List', items },
    nodes: [{ name: WORKER, files }],
  })
  const output: ExecResult = {
    exitCode: lacks === undefined ? 0 : 3,
    stdout: `${lacks ?? ''}\n`,
    stderr: '',
  }
  const cluster = madeCluster({ name: 'fake', exec: async () => output })
  const live = new LiveCluster(cluster, {} as KubeClient, { keepMoments: false })
  let requests: string[] = []
  live.inPod = async (_pod, script) => {
    requests = [...script.matchAll(/\?(probe-[0-9a-f-]+)=\[1-(\d+)\]/g)].flatMap(
      ([, token, count]) =>
        Array.from({ length: Number(count) - unsent }, () => `10.244.1.9 ${token}`),
    )
    const toOtherPort = script.includes(':9/')
      ? `#request\t0\t0\t0\t1\t${otherPort}\tan error\t\n`
      : ''
    const stdout = requests.map(() => '#request\t0\t200\t4000\t1\t0\t\t\n').join('') + toOtherPort
    return { exitCode: 0, stdout, stderr: '' }
  }
  live.log = async () => requests.join('\n')
  return {
    snapshot,
    nodes: snapshot.nodes,
    notes: new LabNotes(7, snapshot),
    live,
    asks: false,
    show: () => {},
  }
}

/**
 * What a check says: the node and the finding of a failure, the reason where it can't be asked, or
 * `passed`.
 */
async function outputOf(check: Check, scene: Scene): Promise<string> {
  try {
    await check(contextOf(scene))
    return 'passed'
  } catch (error) {
    if (error instanceof Failure) return `${error.detail.node ?? 'no node'}: ${error.detail.actual}`
    if (error instanceof NotApplicable) return `not applicable: ${error.message}`
    throw error
  }
}

/** The check of a step with the kernel features that lab.yaml requires for it. */
const checkOf = (id: string): Check =>
  lab7.steps.find((step) => step.id === id)?.check ?? expect.fail(`no step ${id}`)

test('a kernel without NAT in nf_tables, and a kube-proxy without the mode, are distinguished from a mistake', async () => {
  const lacks = 'NAT in nf_tables (module nft_chain_nat)'
  for (const id of ['nft-tables', 'nft-maps', 'nft-alone', 'nft-back'])
    expect(await outputOf(checkOf(id), { lacks })).toBe(
      `not applicable: mode nftables can't run here: the kernel of ${WORKER} has no ${lacks}; a cluster with KERNEL=host, or kind, runs it`,
    )
  expect(await outputOf(hasSeparateTables, { mode: 'iptables' })).toMatch(`${WORKER}: iptables`)
})

test('a node that could not be probed is probed again', async () => {
  const context = contextOf({})
  const { cluster } = context.live ?? {}
  if (!cluster) throw new Error('a live cluster was wanted')
  const { exec } = cluster
  cluster.exec = () => Promise.reject(new Error('no route'))
  const check = checkOf('nft-tables')
  await expect(check(context)).rejects.toThrow(Trouble)
  cluster.exec = exec
  await check(context)
})

test('tables and maps as read from a kernel pass', async () => {
  expect(await outputOf(hasSeparateTables, {})).toBe('passed')
  expect(await outputOf(mapsLeadToPods, {})).toBe('passed')
  expect(await outputOf(nothingBeside, {})).toBe('passed')
})

test.each([
  ['no table', hasSeparateTables, { nft: '{"nftables":[]}' }, /table ip kube-proxy is missing/],
  [
    'a jump is gone',
    hasSeparateTables,
    { nft: listing.replace('{"jump": {"target": "masquerading"}}', '{"drop": null}') },
    /chain nat-postrouting/,
  ],
  [
    'an element is gone',
    mapsLeadToPods,
    { nft: listing.replace('"10.96.119.228", "tcp", 80', '"10.96.119.228", "tcp", 81') },
    /map service-ips: missing element 10\.96\.119\.228 \. tcp \. 80/,
  ],
  [
    'an endpoint is altered',
    mapsLeadToPods,
    { nft: listing.replace('"addr": "10.244.1.6"', '"addr": "10.244.1.7"') },
    /leads to dnat to .*10\.244\.1\.7:80/,
  ],
  ['no request is sent at all', mapsLeadToPods, { unsent: 12 }, /^no node: 0 were sent/],
  ['the other port is lost, not refused', mapsLeadToPods, { otherPort: 28 }, /no answer in time/],
  [
    'a chain of iptables mode is left',
    nothingBeside,
    { rules: '*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-MARK-MASQ - [0:0]\nCOMMIT\n' },
    /nat: 1 chain/,
  ],
  [
    'the way back was not from nftables',
    nothingOfNftables,
    { mode: 'iptables' },
    /has not seen it/,
  ],
  [
    'a table is left on the way back',
    nothingOfNftables,
    { mode: 'iptables', notes: { 'tables-of-nftables': '{}' } },
    /nft table ip kube-proxy, nft table ip6 kube-proxy/,
  ],
] as const)('%s: the step that is about it says so', async (_what, check, scene, found) => {
  expect(await outputOf(check, scene)).toMatch(found)
})
