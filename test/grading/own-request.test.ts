import { describe, expect, test } from 'vitest'
import type { LiveContext } from '../../grading/check-context.ts'
import { Failure } from '../../grading/failure.ts'
import { contextOf } from '../../grading/judge.ts'
import { LabNotes } from '../../grading/lab-notes.ts'
import { type OwnRequest, ownRequest, ownRequestIn } from '../../grading/own-request.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { madeLiveCluster } from './made-live-cluster.ts'

const CLIENT = '10.244.1.5'
const BACKEND = '10.244.2.7'
const NODE = '172.18.0.3'
const BRIDGE = '10.244.1.1'

const pod = (name: string, podIP: string, app: string, nodeName: string) => ({
  kind: 'Pod',
  apiVersion: 'v1',
  metadata: { name, namespace: 'default', labels: { app } },
  spec: { nodeName },
  status: { podIP },
})

function contextWith(log: string, conntrack = '', data: Record<string, string> = {}): LiveContext {
  const addresses = [{ family: 'inet', local: BRIDGE, prefixlen: 24 }]
  const links = JSON.stringify([{ ifname: 'cni0', addr_info: addresses }])
  const node = {
    kind: 'Node',
    apiVersion: 'v1',
    metadata: { name: 'worker' },
    status: { addresses: [{ type: 'InternalIP', address: NODE }] },
  }
  const notes = { kind: 'ConfigMap', metadata: { name: 'lab-2', namespace: 'default' }, data }
  const snapshot = new Snapshot({
    objects: {
      apiVersion: 'v1',
      kind: 'List',
      items: [
        node,
        notes,
        pod('client', CLIENT, 'client', 'worker'),
        pod('web-1', BACKEND, 'web', 'worker2'),
      ],
    },
    nodes: [
      {
        name: 'worker',
        files: new Map([
          ['iptables-save', '*nat\nCOMMIT\n'],
          ['ip-addr.json', links],
        ]),
      },
    ],
  })
  const live = madeLiveCluster({ log: () => log, node: () => conntrack })
  return { ...contextOf(snapshot, new LabNotes(2, snapshot), live), live }
}

const line = (client: string, path: string) =>
  `${client} - - [24/Nov/2026:14:00:00 +0000] "GET ${path} HTTP/1.1" 200 615 "-" "curl/8"`
const seen = (wanted: OwnRequest, log: string, conntrack?: string) =>
  Promise.resolve(ownRequest(wanted)(contextWith(log, conntrack)))

describe("a learner's own request", () => {
  test.each<[OwnRequest['from'], string, string | undefined]>([
    ['pod', CLIENT, 'worker'],
    ['node', NODE, 'worker'],
    ['node', BRIDGE, 'worker'],
    ['outside', '203.0.113.9', undefined],
  ])('from the %s is known by the client %s that the Pod logged', async (from, client, node) => {
    expect(await seen({ from }, line(client, '/?mine'))).toEqual({
      marker: 'mine',
      client,
      ...(node && { node }),
      backend: { pod: 'web-1', address: BACKEND, node: 'worker2' },
    })
  })

  test('is kept with its conntrack entry', async () => {
    const entry = `tcp 6 98 TIME_WAIT src=${CLIENT} dst=10.96.1.2 sport=40000 dport=80 src=${BACKEND} dst=${CLIENT} sport=80 dport=40000 [ASSURED] mark=0 use=1`
    expect(await seen({ from: 'pod' }, line(CLIENT, '/?mine'), entry)).toMatchObject({
      connection: {
        original: { destination: '10.96.1.2', destinationPort: 80 },
        reply: { source: BACKEND, destination: CLIENT },
      },
    })
  })

  test.each([
    ['the grader sent it', line(CLIENT, '/?probe-0a1b2c3d-4e5f-0=3')],
    ['the grader sent it without a mark', line(CLIENT, '/?request=1')],
    ['it has no word', line(CLIENT, '/')],
    ['another Pod sent it', line('10.244.1.99', '/?mine')],
    ['a node sent it', line(NODE, '/?mine')],
    ['there is none', ''],
  ])('from the Pod does not count if %s', async (_what, log) => {
    await expect(seen({ from: 'pod' }, log)).rejects.toThrow(Failure)
  })

  const toHost = (client: string, host: string) =>
    line(client, '/?mine').replace(' - - ', ` - ${host} `)

  test('to one virtual server is not that to another one', async () => {
    const wanted = { from: 'outside', host: '192.0.2.11:8092' } as const
    const other = toHost('203.0.113.9', '192.0.2.11:8091')
    const own = toHost('203.0.113.9', wanted.host)
    expect(await seen(wanted, `${own}\n${other}`)).toMatchObject({ marker: 'mine' })
    await expect(seen(wanted, other)).rejects.toMatchObject({
      detail: {
        expected: expect.stringContaining('the machine outside the cluster to 192.0.2.11:8092'),
        actual: expect.stringMatching(/came from 203.0.113.9, and was sent to 192.0.2.11:8091$/),
        hint: 'Send one:',
        next: "make exec NODE=outside CMD='curl -s 192.0.2.11:8092/?mine'",
      },
    })
  })

  test('with a word that a step gives is not one of another step', async () => {
    const wanted = { from: 'pod', word: 'probed' } as const
    expect(await seen(wanted, line(CLIENT, '/?probed-3'))).toMatchObject({ marker: 'probed-3' })
    await expect(seen(wanted, line(CLIENT, '/?mine'))).rejects.toMatchObject({
      detail: { expected: expect.stringContaining('with the word "probed"') },
    })
  })

  test('from a node is not that of a Pod, and the failure says who sent the last one', async () => {
    await expect(seen({ from: 'node' }, line(CLIENT, '/?mine'))).rejects.toMatchObject({
      detail: { actual: `the last request with a word of yours, "mine", came from ${CLIENT}` },
    })
  })
})

test('what was kept is read from the notes, and other text is not', () => {
  const note = { marker: 'mine', client: CLIENT, backend: { pod: 'a', address: 'b', node: 'c' } }
  const notesWith = (data: Record<string, string>) => contextWith('', '', data).notes
  expect(ownRequestIn(notesWith({ 'evidence.it': JSON.stringify(note) }), 'it')).toEqual(note)
  expect(ownRequestIn(notesWith({ 'evidence.it': '{"marker":1}' }), 'it')).toBeUndefined()
})
