import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ObjectsError, readObjects } from '../../../dataplane/objects.ts'
import { predict } from '../../../dataplane/predict.ts'

const list = (...items: unknown[]) => ({ apiVersion: 'v1', kind: 'List', items })
const service = (spec: object, name = 'web') => ({
  kind: 'Service',
  metadata: { namespace: 'default', name },
  spec,
})

const faultsOf = (json: unknown): string[] => {
  try {
    return readObjects(json).faults.map((fault) => `${fault.object}: ${fault.field}`)
  } catch (error) {
    if (error instanceof ObjectsError)
      return error.faults.map((fault) => `${fault.object}: ${fault.field}`)
    throw error
  }
}

describe('readObjects', () => {
  test('reports every fault with its object and field', () => {
    const json = list(
      service({
        clusterIP: '10.96.0.300',
        type: 'Balancer',
        ports: [{ port: 0 }, { name: 'a b', port: 80, nodePort: 70000, protocol: 'ICMP' }],
        externalIPs: ['1.2.3.4; reboot'],
        loadBalancerSourceRanges: ['10.0.0.0'],
      }),
      { kind: 'Service', metadata: { namespace: 'default' } },
      {
        kind: 'EndpointSlice',
        metadata: {
          namespace: 'default',
          name: 'web-x',
          labels: { 'kubernetes.io/service-name': 7 },
        },
        addressType: 'IPv4',
        ports: 'many',
        endpoints: [{ addresses: ['fd00::1'], conditions: { ready: 'yes' } }],
      },
      {
        kind: 'Node',
        metadata: { name: 'w' },
        spec: { podCIDR: 'all' },
        status: { addresses: [{ type: 'InternalIP' }] },
      },
      'text',
      { metadata: { name: 'x' } },
    )
    expect(faultsOf(json).sort()).toEqual(
      [
        'Service default/web: spec.clusterIP',
        'Service default/web: spec.ports[0].port',
        'Service default/web: spec.ports[1].name',
        'Service default/web: spec.ports[1].protocol',
        'Service default/web: spec.ports[1].nodePort',
        'Service default/web: spec.externalIPs[0]',
        'Service default/web: spec.loadBalancerSourceRanges[0]',
        'Service default/web: spec.type',
        'Service default: metadata.name',
        'EndpointSlice default/web-x: metadata.labels[kubernetes.io/service-name]',
        'EndpointSlice default/web-x: ports',
        'EndpointSlice default/web-x: endpoints[0].conditions.ready',
        'EndpointSlice default/web-x: endpoints[0].addresses[0]',
        'Node w: status.addresses[0].address',
        'Node w: spec.podCIDR',
        'input: $.items[4]',
        'input: $.items[5]',
      ].sort(),
    )
  })

  test.each([null, 7, 'text', [], {}, { kind: 'List' }, { kind: 'List', items: {} }, list(list())])(
    '%j is not a list of objects',
    (json) => expect(faultsOf(json)).not.toEqual([]),
  )

  test('reads a typed list and v1beta1 slices, and ignores unknown kinds', () => {
    const slice = {
      apiVersion: 'discovery.k8s.io/v1beta1',
      metadata: {
        namespace: 'default',
        name: 'a',
        labels: { 'kubernetes.io/service-name': 'web' },
      },
      ports: [{ port: 80 }],
      endpoints: [{ addresses: ['10.0.0.1'], topology: { 'kubernetes.io/hostname': 'w' } }],
    }
    const { objects } = readObjects({ kind: 'EndpointSliceList', items: [slice] })
    expect(objects.endpointSlices[0]).toMatchObject({
      serviceName: 'web',
      addressType: 'IPv4',
      ports: [{ name: '', protocol: 'TCP', port: 80 }],
      endpoints: [{ nodeName: 'w', ready: true, serving: true, terminating: false }],
    })
    expect(faultsOf(list({ kind: 'Secret', metadata: 5 }))).toEqual([])
  })

  test('an object that is listed twice is a fault', () =>
    expect(faultsOf(list(service({}), service({})))).toEqual([
      'Service default/web: metadata.name',
    ]))

  test('any JSON is read or refused with faults, and objects that were read can be predicted', () => {
    const kinds = fc.constantFrom('Service', 'EndpointSlice', 'Node', 'Pod', 'ConfigMap', 'List')
    const metadata = fc.oneof(
      fc.record({ namespace: fc.constant('a'), name: fc.constantFrom('a', 'b', '-', '') }),
      fc.jsonValue(),
    )
    const fields = [
      'clusterIP',
      'clusterIPs',
      'ports',
      'type',
      'externalIPs',
      'sessionAffinityConfig',
      'podCIDR',
    ]
    const spec = fc.dictionary(fc.constantFrom(...fields), fc.jsonValue())
    const item = fc.record(
      {
        kind: kinds,
        metadata,
        spec: fc.oneof(spec, fc.jsonValue()),
        status: fc.jsonValue(),
        endpoints: fc.jsonValue(),
        ports: fc.jsonValue(),
      },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(
        fc.oneof(
          fc.array(item).map((items) => list(...items)),
          fc.jsonValue(),
        ),
        (json) => {
          try {
            const { objects } = readObjects(json)
            predict({ ...objects, nodes: [] }, { node: 'w', mode: 'ipvs', version: '1.30' })
          } catch (error) {
            expect(error).toBeInstanceOf(ObjectsError)
          }
        },
      ),
      { numRuns: 500 },
    )
  })
})

describe('addresses as kube-proxy accepts them', () => {
  const of = (
    version: string,
    address: string,
    addressType = address.includes(':') ? 'IPv6' : 'IPv4',
  ) =>
    predict(
      readObjects(
        list(
          { kind: 'Node', metadata: { name: 'w' } },
          service({
            clusterIP: '172.30.0.041',
            ports: [{ port: 80 }],
            type: 'LoadBalancer',
            externalIPs: ['1.2.3.004'],
            loadBalancerSourceRanges: ['203.0.113.000/025'],
          }),
          {
            kind: 'EndpointSlice',
            metadata: {
              namespace: 'default',
              name: 'web-1',
              labels: { 'kubernetes.io/service-name': 'web' },
            },
            addressType,
            ports: [{ name: '', port: 80 }],
            endpoints: [{ addresses: [address], nodeName: 'w' }],
          },
        ),
      ).objects,
      { node: 'w', mode: 'iptables', version },
    ).iptables.get('nat')

  test('numbers with leading zeros are decimal', () => {
    const rules = [...(of('1.31', '10.180.00.001')?.values() ?? [])].flatMap((chain) =>
      chain.rules.map((r) => r.spec),
    )
    expect(rules.join('\n')).toMatch(/-d 172\.30\.0\.41\/32 /)
    expect(rules.join('\n')).toMatch(/-d 1\.2\.3\.4\/32 /)
    expect(rules.join('\n')).toMatch(/-s 10\.180\.0\.1\/32 /)
  })

  test('chain names contain the canonical address from 1.31 on, before it the spelling of the slice', () => {
    const chains = (version: string, address: string) =>
      [...(of(version, address)?.keys() ?? [])].filter((name) => name.startsWith('KUBE-SEP-'))
    const canonical = chains('1.36', '10.180.0.1')
    expect(canonical).toHaveLength(1)
    expect(chains('1.36', '10.180.00.001')).toEqual(canonical)
    expect(chains('1.31', '10.180.00.001')).toEqual(canonical)
    expect(chains('1.30', '10.180.0.1')).toEqual(canonical)
    expect(chains('1.30', '10.180.00.001')).not.toEqual(canonical)
  })

  // The API server takes ::ffff:10.244.1.5 for IPv4 (netutils.IsIPv4), and kube-proxy writes what
  // net.IP.String returns.
  test('an IPv4-mapped endpoint of an IPv4 slice is its IPv4 address from 1.31 on, and refused before', () => {
    expect(of('1.31', '::ffff:10.244.1.5', 'IPv4')).toEqual(of('1.31', '10.244.1.5'))
    expect(of('1.36', '::FFFF:af4:105', 'IPv4')).toEqual(of('1.36', '10.244.1.5'))
    expect(() => of('1.30', '::ffff:10.244.1.5', 'IPv4')).toThrow(
      /"::ffff:10\.244\.1\.5" of EndpointSlice default\/web-1 .* reads it as 10\.244\.1\.5/,
    )
    const slice = { addressType: 'IPv6', endpoints: [{ addresses: ['::ffff:10.244.1.5'] }] }
    const metadata = { namespace: 'default', name: 'web-1' }
    expect(faultsOf(list({ kind: 'EndpointSlice', metadata, ...slice }))).toEqual([
      'EndpointSlice default/web-1: endpoints[0].addresses[0]',
    ])
  })

  test('IPv4-mapped addresses of Services, Nodes and ranges are IPv4 addresses', () => {
    const { objects } = readObjects(
      list(
        { kind: 'Node', metadata: { name: 'w' }, spec: { podCIDR: '::ffff:10.244.1.0/120' } },
        service({
          clusterIP: '::ffff:10.96.0.9',
          type: 'LoadBalancer',
          ports: [{ port: 80 }],
          externalIPs: ['::ffff:198.51.100.1', '::fffe:1'],
          loadBalancerSourceRanges: ['::ffff:10.0.0.0/104', '::ffff:0:0/95', '::ffff:0:0/96'],
        }),
      ),
    )
    expect(objects.nodes[0]?.podCIDRs).toEqual(['10.244.1.0/24'])
    expect(objects.services[0]).toMatchObject({
      clusterIPs: ['10.96.0.9'],
      externalIPs: ['198.51.100.1', '::fffe:1'],
      loadBalancerSourceRanges: ['10.0.0.0/8', '::ffff:0:0/95', '0.0.0.0/0'],
    })
  })
})

test.each(['iptables', 'ipvs', 'nftables'] as const)(
  '%s: one IP that is terminating in one entry and ready in another',
  (mode) => {
    const ready = { addresses: ['10.180.0.1'], nodeName: 'n2', conditions: { ready: true } }
    const leaving = { ready: false, serving: false, terminating: true }
    const gone = { addresses: ['10.180.0.1'], nodeName: 'w', conditions: leaving }
    const served = (version: string, endpoints: object[]) => {
      const items = [
        { kind: 'Node', metadata: { name: 'w' } },
        service({ clusterIP: '10.96.0.7', ports: [{ port: 80 }] }),
        {
          kind: 'EndpointSlice',
          metadata: {
            namespace: 'default',
            name: 'web-1',
            labels: { 'kubernetes.io/service-name': 'web' },
          },
          addressType: 'IPv4',
          ports: [{ name: '', port: 80 }],
          endpoints,
        },
      ]
      const state = predict(readObjects(list(...items)).objects, { node: 'w', mode, version })
      const text = JSON.stringify([
        [...(state.iptables.get('nat')?.values() ?? [])],
        state.virtualServers,
        state.nftables?.map(({ chains }) => [...chains]),
      ])
      return text.includes('10.180.0.1')
    }
    expect(served('1.36', [gone, ready])).toBe(true)
    expect(served('1.36', [ready, gone])).toBe(true)
    expect(served('1.35', [ready, gone])).toBe(false)
  },
)
