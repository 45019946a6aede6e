import fc from 'fast-check'
import { type ClusterObjects, readObjects } from '../../../dataplane/objects.ts'

const NODES = ['k8s-guide-control-plane', 'k8s-guide-worker', 'k8s-guide-worker2']

const nodes = NODES.map((name, index) => ({
  kind: 'Node',
  metadata: { name },
  spec: {
    podCIDR: `10.244.${index}.0/24`,
    podCIDRs: [`10.244.${index}.0/24`, `fd00:10:244:${index + 1}::/64`],
  },
  status: {
    addresses: [
      { type: 'InternalIP', address: `172.18.0.${index + 2}` },
      { type: 'InternalIP', address: `fc00:f853:ccd:e793::${index + 2}` },
    ],
  },
}))

const endpoint = fc.record({
  node: fc.constantFrom(0, 1, 2),
  host: fc.integer({ min: 1, max: 60 }),
})

/** By host, so that an endpoint listed in two slices is in one state. */
const STATES = ['ready', 'ready', 'ready', 'unready', 'leaving', 'unknown'] as const

const CONDITIONS = {
  ready: { ready: true, serving: true, terminating: false },
  unready: { ready: false, serving: false, terminating: false },
  leaving: { ready: false, serving: true, terminating: true },
  unknown: {},
} as const

const port = fc.record({
  protocol: fc.constantFrom('TCP', 'UDP', 'SCTP'),
  port: fc.integer({ min: 1, max: 65535 }),
  targetPort: fc.integer({ min: 1, max: 65535 }),
})

const service = fc.record({
  type: fc.constantFrom('ClusterIP', 'NodePort', 'LoadBalancer', 'Headless', 'ExternalName'),
  ports: fc.array(port, { minLength: 1, maxLength: 3 }),
  affinity: fc.option(fc.integer({ min: 1, max: 86400 })),
  internal: fc.constantFrom('Cluster', 'Local'),
  external: fc.constantFrom('Cluster', 'Local'),
  externalIPs: fc.integer({ min: 0, max: 2 }),
  ingress: fc.constantFrom('none', 'ip', 'hostname', 'proxy', 'two'),
  ranges: fc.subarray(['203.0.113.0/24', '172.18.0.0/16', '10.1.2.3/32', 'fd00::/8']),
  dualStack: fc.boolean(),
  slices: fc.array(fc.array(endpoint, { maxLength: 5 }), { maxLength: 2 }),
  otherProxy: fc.constantFrom(false, false, false, true),
})

type RandomService = typeof service extends fc.Arbitrary<infer T> ? T : never

const INGRESS: Record<RandomService['ingress'], (index: number) => object[]> = {
  none: () => [],
  ip: (index) => [{ ip: `172.18.255.${index}` }],
  hostname: () => [{ hostname: 'lb.example.com' }],
  proxy: (index) => [{ ip: `172.18.255.${index}`, ipMode: 'Proxy' }],
  two: (index) => [{ ip: `172.18.255.${index}` }, { ip: `fd00:255::${index}` }],
}

const portName = (input: RandomService, index: number): string =>
  input.ports.length === 1 ? '' : `p${index}`

function serviceItem(input: RandomService, index: number): object {
  const hasNodePort = input.type === 'NodePort' || input.type === 'LoadBalancer'
  const clusterIP = input.type === 'Headless' ? 'None' : `10.96.1.${index + 1}`
  const clusterIPs =
    input.dualStack && clusterIP !== 'None' ? [clusterIP, `fd00:10:96::${index + 1}`] : [clusterIP]
  return {
    kind: 'Service',
    metadata: {
      namespace: 'default',
      name: `svc-${index}`,
      labels: input.otherProxy ? { 'service.kubernetes.io/service-proxy-name': 'other' } : {},
    },
    spec: {
      type: input.type === 'Headless' ? 'ClusterIP' : input.type,
      ...(input.type === 'ExternalName' ? {} : { clusterIP, clusterIPs }),
      ports: input.ports.map(({ protocol, port }, at) => ({
        name: portName(input, at),
        protocol,
        port,
        ...(hasNodePort ? { nodePort: 30000 + index * 10 + at } : {}),
      })),
      ...(input.affinity === null
        ? {}
        : {
            sessionAffinity: 'ClientIP',
            sessionAffinityConfig: { clientIP: { timeoutSeconds: input.affinity } },
          }),
      internalTrafficPolicy: input.internal,
      ...(hasNodePort || input.externalIPs > 0 ? { externalTrafficPolicy: input.external } : {}),
      externalIPs: Array.from({ length: input.externalIPs }, (_, at) => `192.0.${at}.${index + 1}`),
      ...(input.type === 'LoadBalancer' && input.external === 'Local'
        ? { healthCheckNodePort: 32000 + index }
        : {}),
      ...(input.type === 'LoadBalancer' ? { loadBalancerSourceRanges: input.ranges } : {}),
    },
    status:
      input.type === 'LoadBalancer'
        ? { loadBalancer: { ingress: INGRESS[input.ingress](index + 1) } }
        : {},
  }
}

function sliceItems(input: RandomService, index: number): object[] {
  const families = input.dualStack ? ['IPv4', 'IPv6'] : ['IPv4']
  return families.flatMap((addressType) =>
    input.slices.map((endpoints, at) => ({
      kind: 'EndpointSlice',
      metadata: {
        namespace: 'default',
        name: `svc-${index}-${addressType.toLowerCase()}-${at}`,
        labels: { 'kubernetes.io/service-name': `svc-${index}` },
      },
      addressType,
      ports: input.ports.map(({ protocol, targetPort }, at) => ({
        name: portName(input, at),
        protocol,
        port: targetPort,
      })),
      endpoints: endpoints.map(({ node, host }) => ({
        addresses: [
          addressType === 'IPv4'
            ? `10.244.${node}.${host}`
            : `fd00:10:244:${node + 1}::${host.toString(16)}`,
        ],
        nodeName: NODES[node],
        conditions: CONDITIONS[STATES[host % STATES.length] ?? 'ready'],
      })),
    })),
  )
}

/**
 * Random Services of every kind on three nodes, with slices that overlap and endpoints in every
 * state.
 */
export const randomObjects: fc.Arbitrary<ClusterObjects> = fc
  .array(service, { minLength: 1, maxLength: 8 })
  .map((services) => {
    const items = [...nodes, ...services.map(serviceItem), ...services.flatMap(sliceItems)]
    return readObjects({ kind: 'List', items }).objects
  })
