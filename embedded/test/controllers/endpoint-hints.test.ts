import { expect, test } from 'vitest'
import { hintsFor, zoneLabel } from '../../controllers/endpoint-hints.ts'
import type { ServiceObject } from '../../controllers/resources.ts'
import { cluster, useTestCluster, workers } from './cluster.ts'
import { pod, service } from './manifests.ts'

useTestCluster()

const endpoints = () => cluster.slices('web').flatMap((slice) => slice.endpoints ?? [])
const hints = () => endpoints().map((endpoint) => endpoint.hints)
const label = (node: string, zone: string) =>
  cluster.api.patch('nodes', undefined, node, { metadata: { labels: { [zoneLabel]: zone } } })

async function createWeb(trafficDistribution: string): Promise<void> {
  label(workers[0] ?? '', 'zone-a')
  cluster.api.create('services', 'default', service('web', { trafficDistribution }))
  cluster.api.create('pods', 'default', pod('a', { nodeName: workers[0] }, { app: 'web' }))
  await cluster.settled()
}

test.each(['PreferClose', 'PreferSameZone'])('%s gives an endpoint its zone', async (value) => {
  await createWeb(value)
  expect(endpoints()[0]?.zone).toBe('zone-a')
  expect(hints()).toEqual([{ forZones: [{ name: 'zone-a' }] }])
})

test('PreferSameNode gives an endpoint its node and its zone', async () => {
  await createWeb('PreferSameNode')
  expect(hints()).toEqual([{ forNodes: [{ name: workers[0] }], forZones: [{ name: 'zone-a' }] }])
})

test('hints follow the label of the node, readiness and the field', async () => {
  await createWeb('PreferSameZone')
  label(workers[0] ?? '', 'zone-c')
  await cluster.settled()
  expect(hints()).toEqual([{ forZones: [{ name: 'zone-c' }] }])
  cluster.kubelet.setReady('a', false)
  await cluster.settled()
  expect(hints()).toEqual([undefined])
  cluster.kubelet.setReady('a', true)
  await cluster.settled()
  expect(hints()).toEqual([{ forZones: [{ name: 'zone-c' }] }])
  cluster.api.patch('services', 'default', 'web', { spec: { trafficDistribution: null } })
  await cluster.settled()
  expect(hints()).toEqual([undefined])
})

test('the API server refuses a distribution that its version does not have', () => {
  expect(() =>
    cluster.api.create('services', 'default', service('web', { trafficDistribution: 'Nearest' })),
  ).toThrow(/trafficDistribution.*Nearest/)
})

test.each([
  ['PreferClose', 30, undefined],
  ['PreferClose', 31, { forZones: [{ name: 'a' }] }],
  ['PreferSameNode', 33, undefined],
  ['PreferSameNode', 34, { forNodes: [{ name: 'w' }], forZones: [{ name: 'a' }] }],
])('%s in 1.%i', (trafficDistribution, minor, expected) => {
  const object = { metadata: {}, spec: { trafficDistribution } } as ServiceObject
  const endpoint = { addresses: [], conditions: { ready: true }, nodeName: 'w', zone: 'a' }
  expect(hintsFor(object, endpoint, minor)).toEqual(expected)
  const annotations = { 'service.kubernetes.io/topology-mode': 'Auto' }
  const routed = { ...object, metadata: { annotations } } as unknown as ServiceObject
  expect(hintsFor(routed, endpoint, minor)).toBeUndefined()
})
