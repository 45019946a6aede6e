import type { CoreV1ApiPatchNamespacedConfigMapRequest } from '@kubernetes/client-node'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { parseConnections } from '../../checks/02-ipvs/requests.ts'
import { kubeProxyPods } from '../../cluster/kube-proxy/kube-proxy-pods.ts'
import { Trouble } from '../../grading/failure.ts'
import { readReplies } from '../../grading/http-requests.ts'
import { LabNotes } from '../../grading/lab-notes.ts'
import { packetsOn } from '../../grading/packet-counters.ts'
import { pendingChanges } from '../../grading/pending-changes.ts'
import { kubeProxyVersionOn, reportedMode, Snapshot } from '../../grading/snapshot.ts'
import { emptySnapshot } from './fake-lab.ts'
import { madeClient, madeLiveCluster } from './made-live-cluster.ts'

describe('the mode of kube-proxy', () => {
  test.each([
    [
      'the reply to /proxyMode has priority',
      'ipvs',
      'I1 server.go:1] "Using iptables Proxier"',
      'ipvs',
    ],
    [
      'the log of a new version',
      undefined,
      'I1121 01:02:03.4 1 server_linux.go:110] "Using ipvs Proxier"',
      'ipvs',
    ],
    [
      'the log of 1.20',
      undefined,
      'I1121 01:02:03.4       1 server_others.go:258] Using ipvs Proxier.',
      'ipvs',
    ],
    [
      'the last line that names a mode',
      undefined,
      'I1 a.go:1] Using ipvs Proxier.\nI1 a.go:1] Using iptables Proxier.',
      'iptables',
    ],
    [
      'an error message is not a mode',
      undefined,
      "E1 a.go:1] Can't use the IPVS proxier: no modules",
      undefined,
    ],
    ['neither reply nor log', undefined, undefined, undefined],
  ])('%s', (_why, proxyMode, log, mode) => {
    expect(reportedMode(proxyMode, log)).toBe(mode)
  })
})

describe('the version of kube-proxy', () => {
  const node = {
    kind: 'Node',
    metadata: { name: 'n' },
    status: { nodeInfo: { kubeletVersion: 'v1.34.0' } },
  }
  const kubeProxy = (name: string, tag: string, { metadata = {}, phase = 'Running' } = {}) => ({
    kind: 'Pod',
    metadata: { name, namespace: 'kube-system', labels: { 'k8s-app': 'kube-proxy' }, ...metadata },
    spec: { nodeName: 'n', containers: [{ image: `registry.k8s.io/kube-proxy:${tag}` }] },
    status: { phase },
  })
  const running = kubeProxy('new', 'v1.30.3')
  const terminating = kubeProxy('old', 'v1.20.2', {
    metadata: { deletionTimestamp: '2026-11-21T09:59:00Z' },
  })
  const evicted = kubeProxy('evicted', 'v1.20.2', { phase: 'Failed' })

  test.each([
    ['the Pod of the node', [running], 'v1.30.3'],
    ['not that of a terminating Pod, listed first', [terminating, running], 'v1.30.3'],
    ['not that of a terminating Pod, listed last', [running, terminating], 'v1.30.3'],
    ['not that of an evicted Pod, listed first', [evicted, running], 'v1.30.3'],
    ['not that of an evicted Pod, listed last', [running, evicted], 'v1.30.3'],
    ['that of a terminating Pod while there is no other', [terminating], 'v1.20.2'],
    ['that of the Node when there is no Pod', [], 'v1.34.0'],
  ])('%s', (_why, pods, version) => {
    expect(kubeProxyVersionOn(emptySnapshot([node, ...pods], 0).items, 'n')).toBe(version)
  })

  test('a kube-proxy in service is neither terminating nor evicted, and in kube-system', () => {
    const elsewhere = kubeProxy('other', 'v1.30.3', { metadata: { namespace: 'default' } })
    const { items } = emptySnapshot([terminating, evicted, elsewhere, running, node], 0)
    expect(kubeProxyPods(items).map(({ metadata }) => metadata.name)).toEqual(['new'])
  })
})

describe('pending changes', () => {
  const now = Date.parse('2026-11-21T10:00:00Z')
  const pod = (status: object, metadata: object = {}) => ({
    kind: 'Pod',
    metadata: { name: 'x', namespace: 'default', ...metadata },
    status,
  })

  const kubeProxy = (startedAt: string) => ({
    kind: 'Pod',
    metadata: {
      name: 'kube-proxy-x',
      namespace: 'kube-system',
      labels: { 'k8s-app': 'kube-proxy' },
    },
    status: {
      phase: 'Running',
      conditions: [{ type: 'Ready', status: 'True' }],
      containerStatuses: [{ state: { running: { startedAt } } }],
    },
  })

  test.each([
    ['a Pod that waits for its image', pod({ phase: 'Pending' }), 1],
    [
      'a Pod that runs and is not ready',
      pod({ phase: 'Running', conditions: [{ type: 'Ready', status: 'False' }] }),
      1,
    ],
    [
      'a terminating Pod',
      pod({ phase: 'Running' }, { deletionTimestamp: '2026-11-21T09:59:00Z' }),
      1,
    ],
    ...(
      [
        ['that was just deleted', '2026-11-21T10:04:58Z', 1],
        ['that waits in a preStop hook of minutes', '2026-11-21T10:04:50Z', 0],
        ['whose grace period ends soon', '2026-11-21T10:00:20Z', 1],
      ] as const
    ).map(([which, deletionTimestamp, count]): [string, object, number] => [
      `a ready Pod ${which}`,
      pod(
        { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
        { deletionTimestamp, deletionGracePeriodSeconds: 300 },
      ),
      count,
    ]),
    ...(
      [
        ['whose hook has just begun', '2026-11-21T10:04:59.5Z', { preStop: {} }, 1],
        ['in a hook', '2026-11-21T10:04:58Z', { preStop: { sleep: { seconds: 300 } } }, 0],
        ['with another hook', '2026-11-21T10:04:58Z', { postStart: {} }, 1],
        ['whose hook ends soon', '2026-11-21T10:00:20Z', { preStop: {} }, 1],
      ] as const
    ).map(([which, deletionTimestamp, lifecycle, count]): [string, object, number] => [
      `a deleted Pod ${which}`,
      {
        ...pod(
          { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
          { deletionTimestamp, deletionGracePeriodSeconds: 300 },
        ),
        spec: { containers: [{ lifecycle }] },
      },
      count,
    ]),
    ['a ready Pod', pod({ phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] }), 0],
    [
      'a Pod that crashes again and again',
      pod({
        phase: 'Running',
        containerStatuses: [{ state: { waiting: { reason: 'CrashLoopBackOff' } } }],
      }),
      0,
    ],
    [
      'a Pod whose image does not exist',
      pod({
        phase: 'Pending',
        containerStatuses: [{ state: { waiting: { reason: 'ErrImagePull' } } }],
      }),
      0,
    ],
    [
      'a Pod that has just begun to run and is not ready',
      pod({
        phase: 'Running',
        containerStatuses: [{ state: { running: { startedAt: '2026-11-21T09:59:58Z' } } }],
      }),
      1,
    ],
    [
      'a Pod that its probe keeps from being ready',
      pod({
        phase: 'Running',
        containerStatuses: [{ state: { running: { startedAt: '2026-11-21T09:59:50Z' } } }],
      }),
      0,
    ],
    ['a kube-proxy whose first sync may not have ended', kubeProxy('2026-11-21T09:59:52Z'), 1],
    ['a kube-proxy that has run for a while', kubeProxy('2026-11-21T09:59:45Z'), 0],
    [
      'a new Service',
      { kind: 'Service', metadata: { name: 's', creationTimestamp: '2026-11-21T09:59:59Z' } },
      1,
    ],
    [
      'an old Service',
      { kind: 'Service', metadata: { name: 's', creationTimestamp: '2026-11-21T09:59:00Z' } },
      0,
    ],
    [
      'a DaemonSet that is being rolled out',
      {
        kind: 'DaemonSet',
        metadata: { name: 'kube-proxy', namespace: 'kube-system', generation: 2 },
        status: { observedGeneration: 2, desiredNumberScheduled: 3, updatedNumberScheduled: 1 },
      },
      1,
    ],
  ])('%s', (_what, item, count) => {
    expect(pendingChanges(emptySnapshot([item], now))).toHaveLength(count)
  })

  test('a kube-proxy that has changes left to write, however old they are', () => {
    const { capture } = emptySnapshot([], now)
    expect(pendingChanges(new Snapshot(capture, undefined, ['worker']))).toEqual([
      'the kube-proxy of worker has not yet written the latest changes',
    ])
  })

  test('a capture without a time has no recent changes', () => {
    const item = {
      kind: 'Service',
      metadata: { name: 's', creationTimestamp: '2026-11-21T09:59:59Z' },
    }
    expect(pendingChanges(emptySnapshot([item]))).toEqual([])
  })
})

describe('notes in the cluster', () => {
  const noted = (data: Record<string, string>) =>
    emptySnapshot([{ kind: 'ConfigMap', metadata: { name: 'lab-2', namespace: 'default' }, data }])

  test('are written once and read back', async () => {
    const notes = new LabNotes(2, noted({ seen: '"before"' }))
    notes.keep('seen', 'later')
    expect(notes.hasNews).toBe(false)
    notes.keep('new', 'first')
    notes.keep('new', 'second')
    expect([notes.read('seen', z.string()), notes.read('new', z.string())]).toEqual([
      'before',
      'first',
    ])
    let written: unknown
    const core = {
      patchNamespacedConfigMap: async ({ body }: CoreV1ApiPatchNamespacedConfigMapRequest) => {
        written = body.data
        return {}
      },
    }
    await notes.save(madeClient(core))
    // Only what is new: an answer given meanwhile in another terminal must stay.
    expect(written).toEqual({ new: '"first"' })
  })

  test('that are damaged are ignored', () => {
    const notes = new LabNotes(2, noted({ a: '{', b: '5' }))
    expect([notes.read('a', z.string()), notes.read('b', z.string())]).toEqual([
      undefined,
      undefined,
    ])
  })
})

const service = { name: 'web', address: '10.96.0.7', port: 80, backends: [] }

test('connections and requests are found in other output of a script', () => {
  const output = `noise
#request\t0\t200\t41234\t1\t0\t\t
#request\t0\t0\t0\t1\t7\tConnection refused\t
IPVS connection entries
pro expire state       source             virtual            destination
TCP 01:58  TIME_WAIT   10.244.1.4:41234   10.96.0.7:80       10.244.2.3:80
TCP 01:58  TIME_WAIT   10.244.1.4:41999   10.96.0.8:80       10.244.2.3:80
`
  expect(parseConnections(output, service)).toEqual([
    { client: '10.244.1.4', clientPort: 41234, backend: '10.244.2.3' },
  ])
  expect(readReplies(output)).toMatchObject([
    { status: 200, port: 41234, connects: 1 },
    { status: 0, port: 0, code: 7 },
  ])
})

describe('the packets that a rule has counted', () => {
  const counted = (stdout: string) =>
    packetsOn(madeLiveCluster({ node: () => stdout }), 'n', ['nat', 'KUBE-SERVICES'], (spec) =>
      spec.endsWith('-j KUBE-MARK-MASQ'),
    )
  const rules = `*nat
:KUBE-SERVICES - [0:0]
[7:420] -A KUBE-SERVICES -m set --match-set KUBE-LOAD-BALANCER dst,dst -j KUBE-LOAD-BALANCER
[3:180] -A KUBE-SERVICES ! -s 10.244.0.0/16 -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ
COMMIT
`

  test('are read from its counter; a rule that does not exist has none', async () => {
    expect(await counted(rules)).toBe(3)
    expect(await counted(rules.replace(/^\[3.*\n/m, ''))).toBeUndefined()
  })

  test("could not be checked if the rules can't be read", async () => {
    for (const unread of ['', '*nat\n[3:180 -A'])
      await expect(counted(unread)).rejects.toSatisfy((error) => error instanceof Trouble)
  })
})
