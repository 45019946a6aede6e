import { expect, test } from 'vitest'
import type { NodeState } from '../../../dataplane/node-state.ts'
import { parsePacket } from '../../../dataplane/trace.ts'
import { journeyOf, type Station } from '../../../dataplane/view/journey.ts'
import { stateOf } from '../../../grading/snapshot.ts'
import { recordedSnapshot } from '../../guide/recorded-snapshot.ts'
import { NODE, stateAt } from '../recordings.ts'

const WEB = '10.96.119.228:80'
/** Of web-three-endpoints: one Pod is on this node, the others on another one. */
const LOCAL = '10.244.1.6:80'

const state = (mode: string) => stateAt(`v1.30.3/${mode}/web-three-endpoints`)
const around = {
  node: NODE,
  nodeOf: (address: string) => (address.startsWith('10.244.1.') ? NODE : 'k8s-guide-worker2'),
  stateOf: () => undefined,
}
const journey = (mode: string, from: string, to?: string, more = {}) =>
  journeyOf(state(mode), parsePacket(from, WEB), { ...around, ...more }, to)
const told = (stations: readonly Station[]) =>
  stations.map(({ place, hook, changed, isStopped }) =>
    [place, hook, changed.join('+'), isStopped && 'stopped'].filter(Boolean).join(' '),
  )

test('iptables mode, from a Pod: the destination changes at PREROUTING, and nothing else', () => {
  const stations = journey('iptables', 'pod:10.244.1.99', LOCAL)
  expect(told(stations)).toEqual(['Pod', 'PREROUTING destination', 'FORWARD', 'POSTROUTING', 'Pod'])
  expect(stations[1]).toMatchObject({
    packet: { source: '10.244.1.99', destination: LOCAL, mark: '0x0' },
    conntrack: { original: `10.244.1.99 → ${WEB}`, reply: `${LOCAL} → 10.244.1.99` },
  })
})

test('IPVS takes a Pod’s packet at LOCAL_IN, and the node’s own at LOCAL_OUT, where it is marked and masqueraded', () => {
  expect(told(journey('ipvs', 'pod:10.244.1.99', LOCAL))).toEqual([
    'Pod',
    'PREROUTING',
    'INPUT',
    'IPVS LOCAL_IN destination',
    'OUTPUT',
    'POSTROUTING',
    'Pod',
  ])
  const own = journey('ipvs', 'host', LOCAL)
  expect(told(own)).toEqual([
    'process',
    'OUTPUT mark',
    'IPVS LOCAL_OUT destination',
    'OUTPUT',
    'POSTROUTING source+mark',
    'Pod',
  ])
  expect(own[1]?.packet.mark).toBe('0x4000')
  expect(own[4]?.conntrack?.reply).toBe(`${LOCAL} → ${own[4]?.packet.source}`)
})

test('a packet that finds no real server stops at IPVS, in the hook where IPVS took it', () => {
  const whole = state('ipvs')
  const empty = {
    ...whole,
    virtualServers: whole.virtualServers.map((server) => ({ ...server, realServers: [] })),
  }
  const stopped = (from: string) => told(journeyOf(empty, parsePacket(from, WEB), around))
  expect(stopped('pod:10.244.1.99')).toEqual([
    'Pod',
    'PREROUTING',
    'INPUT',
    'IPVS LOCAL_IN stopped',
  ])
  expect(stopped('host')).toEqual(['process', 'OUTPUT mark', 'IPVS LOCAL_OUT stopped'])
})

test('to a Pod of another node: over the wire, and through the hooks there', () => {
  const other = { stateOf: () => state('iptables') }
  const far = journey('iptables', 'pod:10.244.1.99', '10.244.2.4:80', other)
  expect(
    far.map(({ node, place }) => `${node === '' ? '' : node.slice(10)} ${place}`.trim()),
  ).toEqual([
    'worker Pod',
    'worker PREROUTING',
    'worker FORWARD',
    'worker POSTROUTING',
    'wire',
    'worker2 PREROUTING',
    'worker2 FORWARD',
    'worker2 POSTROUTING',
    'worker2 Pod',
  ])
  expect(journey('iptables', 'pod:10.244.1.99', '10.244.2.4:80').at(-1)?.place).toBe('outside')
})

test('a packet that a rule stops goes no further', () => {
  const rejected = stateAt('v1.30.3/iptables/web-no-endpoints')
  const stations = journeyOf(rejected, parsePacket('pod:10.244.1.99', WEB), around)
  expect(stations.at(-1)).toMatchObject({ place: 'FORWARD', isStopped: true })
})

/** As kind's nodes do with what leaves for other machines. */
const masquerading = (rules: string): string =>
  rules.replace(
    /(\*nat[\s\S]*?)COMMIT/,
    '$1-A POSTROUTING -m addrtype ! --dst-type LOCAL -j MASQUERADE\nCOMMIT',
  )

/**
 * The first recorded node as a director: 192.0.2.11 is its own, and the other node a real server by
 * this method.
 */
function director(forward: 'masq' | 'route'): NodeState {
  const snapshot = recordedSnapshot('iptables', 'web-three-endpoints', masquerading)
  const node = stateOf(snapshot.node(NODE))
  const links = node.links.map((link) =>
    link.name === 'lo'
      ? {
          ...link,
          addresses: [
            ...link.addresses,
            { family: 'inet' as const, address: VIP, prefixLength: 32 },
          ],
        }
      : link,
  )
  const realServers = [{ address: '172.18.0.4', port: 8091, forward, weight: 1 }]
  const server = { protocol: 'TCP' as const, address: VIP, port: 8091, scheduler: 'rr', flags: [] }
  return { ...node, links, virtualServers: [{ ...server, realServers }] }
}

const VIP = '192.0.2.11'

test.each([
  ['masq', '172.18.0.4:8091', 'source'],
  ['route', `${VIP}:8091`, ''],
] as const)('a real server by %s gets the packet with this header', (forward, header, changed) => {
  const real = { ...director('route'), virtualServers: [] }
  const network = {
    ...around,
    nodeOf: (address: string) => (address === '172.18.0.4' ? 'k8s-guide-worker2' : undefined),
    stateOf: () => real,
  }
  // Masquerading leaves out what is sent to a local address, and the header still has one (tried in
  // lab 4, with conntrack on).
  const packet = parsePacket('external:172.18.0.1', `${VIP}:8091`)
  const stations = journeyOf(director(forward), packet, network)
  const leaving = stations.find(({ place }) => place === 'POSTROUTING')
  expect(leaving).toMatchObject({ node: NODE, device: 'eth0', packet: { destination: header } })
  expect(leaving?.changed.join()).toBe(changed)
  expect(stations.find(({ node }) => node === 'k8s-guide-worker2')?.place).toBe('PREROUTING')
  if (forward === 'route')
    expect(stations.at(-1)).toMatchObject({ node: 'k8s-guide-worker2', place: 'process' })
})
