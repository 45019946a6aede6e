import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readStepPackets, routeOf, type StepPacket } from '../../course/step-packet.ts'
import { findStep, readLab } from '../../grading/lab-definition.ts'
import { Snapshot } from '../../grading/snapshot.ts'
import { StepPacketView } from '../../guide/server/step-packet-view.ts'
import { readSubmission } from '../../instructors/submission/read-submission.ts'
import { SOLVED } from '../instructors/submission/made-submission.ts'

test('labs/packets.yaml names only labs and steps that exist', () => {
  const places = Object.keys(readStepPackets())
  expect(places.length).toBeGreaterThan(20)
  for (const place of places) {
    const [lab, step = ''] = place.split('/')
    expect(findStep(readLab(Number(lab)), step).id).toBe(step)
  }
})

test.each([1, 2, 3, 4, 5, 6, 7])(
  'each packet of lab %i passes the place of its step when that has passed',
  async (lab) => {
    const { manifest, captures } = await readSubmission(
      join(SOLVED, `lab-${lab}-embedded.labgrade`),
    )
    const packets = Object.entries(readStepPackets()).filter(([place]) =>
      place.startsWith(`${lab}/`),
    )
    let seen = 0
    for (const [place, { at }] of packets) {
      const step = place.split('/')[1] ?? ''
      // Not every kernel has nftables, and requests alone prove some steps.
      const id = manifest.steps.find((one) => one.id === step)?.capture
      const submitted = id === undefined ? undefined : captures.get(id)
      if (!submitted) continue
      seen++
      const push = new StepPacketView().see(lab, step, new Snapshot(submitted.capture))
      const places = push?.path.journey?.map((station) => station.place)
      expect(places, place).toContain(at)
    }
    expect(seen).toBeGreaterThan(2)
  },
)

const node = (name: string, address: string, labels = {}) => ({
  kind: 'Node',
  metadata: { name, labels },
  spec: { podCIDR: '10.244.1.0/24' },
  status: { addresses: [{ type: 'InternalIP', address }] },
})
const pod = (name: string, podIP: string, nodeName: string, isReady = true) => ({
  kind: 'Pod',
  metadata: { name, namespace: 'default' },
  spec: { nodeName },
  status: {
    podIP,
    phase: 'Running',
    conditions: [{ type: 'Ready', status: isReady ? 'True' : 'False' }],
  },
})
const service = (name: string, clusterIP: string, nodePort?: number) => ({
  kind: 'Service',
  metadata: { name, namespace: 'default' },
  spec: {
    type: nodePort === undefined ? 'ClusterIP' : 'NodePort',
    clusterIP,
    clusterIPs: [clusterIP],
    ports: [{ port: 80, protocol: 'TCP', ...(nodePort !== undefined && { nodePort }) }],
  },
})
const NODES = [
  node('control-plane', '172.18.0.2', { 'node-role.kubernetes.io/control-plane': '' }),
  node('worker', '172.18.0.3'),
]
const snapshotOf = (...items: object[]) =>
  new Snapshot({
    objects: { apiVersion: 'v1', kind: 'List', items: [...NODES, ...items] },
    nodes: NODES.map(({ metadata: { name } }) => ({ name, files: new Map() })),
  })
const packet = (input: Partial<StepPacket>): StepPacket => ({
  from: 'pod',
  to: 'web',
  at: 'PREROUTING',
  on: 'worker',
  'node-port': false,
  ...input,
})

describe('the route of a step’s packet', () => {
  const web = service('web', '10.96.1.1')
  test('begins at the client, or at another Pod that is ready', () => {
    const other = pod('other', '10.244.1.9', 'worker')
    const client = pod('client', '10.244.0.5', 'control-plane')
    expect(routeOf(packet({}), snapshotOf(web, other, client))).toEqual({
      from: 'pod/client',
      to: '10.96.1.1:80',
      node: 'control-plane',
      origin: 'pod:10.244.0.5',
    })
    expect(routeOf(packet({}), snapshotOf(web, other))?.from).toBe('pod/other')
    const starting = pod('client', '10.244.0.5', 'worker', false)
    expect(routeOf(packet({}), snapshotOf(web, starting))).toBeUndefined()
  })

  test('begins at a Pod of the system rather than at one that may answer itself', () => {
    const backend = pod('web-1', '10.244.1.9', 'worker')
    const dns = pod('coredns-1', '10.244.1.2', 'worker')
    const slice = {
      kind: 'EndpointSlice',
      metadata: {
        name: 'web-x',
        namespace: 'default',
        labels: { 'kubernetes.io/service-name': 'web' },
      },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['10.244.1.9'], conditions: { ready: true } }],
      ports: [{ port: 80, protocol: 'TCP' }],
    }
    const system = { ...dns, metadata: { ...dns.metadata, namespace: 'kube-system' } }
    expect(routeOf(packet({}), snapshotOf(web, slice, backend, system))?.from).toBe(
      'pod/kube-system/coredns-1',
    )
    expect(routeOf(packet({}), snapshotOf(web, slice, backend))).toBeUndefined()
  })

  test('from a process or from outside begins at the first worker, also to a node port', () => {
    expect(routeOf(packet({ from: 'host' }), snapshotOf(web))).toEqual({
      from: 'host',
      to: '10.96.1.1:80',
      node: 'worker',
      origin: 'host',
    })
    const outside = packet({ from: 'outside', to: 'web-np', 'node-port': true })
    const np = service('web-np', '10.96.1.2', 30_080)
    expect(routeOf(outside, snapshotOf(np))?.to).toBe('172.18.0.3:30080')
    expect(routeOf(outside, snapshotOf(service('web-np', '10.96.1.2')))).toBeUndefined()
  })

  test('is none while the Service does not exist or has no address', () => {
    expect(routeOf(packet({ from: 'host' }), snapshotOf())).toBeUndefined()
    expect(routeOf(packet({ from: 'host' }), snapshotOf(service('web', 'None')))).toBeUndefined()
  })
})
