import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { KubeObject } from '../../apiserver/api.ts'
import { type Api, createClusterApi } from '../../apiserver/api.ts'

interface Service extends KubeObject {
  spec: {
    clusterIP?: string
    type: string
    healthCheckNodePort?: number
    ports: { port: number; nodePort?: number }[]
  }
}

let api: Api
beforeEach(() => {
  vi.useFakeTimers({ now: new Date('2026-01-02T03:04:05.678Z'), toFake: ['Date'] })
  api = createClusterApi()
})
afterEach(() => vi.useRealTimers())

const pod = (name: string, nodeName?: string) => ({
  metadata: { name },
  spec: { containers: [{ name: 'a', image: 'b' }], ...(nodeName && { nodeName }) },
})
const tick = () => new Promise((resolve) => setImmediate(resolve))

describe('a new cluster', () => {
  test('has its namespaces, their accounts and the kubernetes Service', () => {
    expect(api.list('namespaces').map((namespace) => namespace.metadata.name)).toEqual([
      'default',
      'kube-node-lease',
      'kube-public',
      'kube-system',
    ])
    expect(api.list('serviceaccounts')).toHaveLength(4)
    expect(api.get('services', 'default', 'kubernetes')).toMatchObject({
      spec: { clusterIP: '10.96.0.1' },
    })
  })
})

describe('watches', () => {
  test('deliver the present objects, then every change in order, also those that handlers make', async () => {
    const seen: string[] = []
    const types: string[] = []
    api.create('pods', 'default', pod('a'))
    const end = api.watch('pods', (type, { metadata }) => {
      seen.push(`${type} ${metadata.name}`)
      if (type === 'ADDED' && metadata.name === 'a')
        api.patch('pods', 'default', 'a', { metadata: { labels: { x: 'y' } } })
    })
    api.watch('pods', (type) => types.push(type))
    expect(seen).toEqual([])
    api.create('pods', 'default', pod('b'))
    await tick()
    expect(seen).toEqual(['ADDED a', 'ADDED b', 'MODIFIED a'])
    expect(types).toEqual(['ADDED', 'ADDED', 'MODIFIED'])
    end()
    api.delete('pods', 'default', 'a')
    await tick()
    expect(seen).toHaveLength(3)
    expect(types.at(-1)).toBe('DELETED')
  })
})

describe('writes', () => {
  test('stored objects are frozen and stamped by the server', () => {
    const created = api.create('pods', 'default', {
      ...pod('a'),
      metadata: { generateName: 'a-', uid: 'mine' },
    })
    expect(created.metadata.name).toMatch(/^a-[a-z0-9]{5}$/)
    expect(created.metadata).toMatchObject({
      creationTimestamp: '2026-01-02T03:04:05Z',
      generation: 1,
    })
    expect(created.metadata.uid).not.toBe('mine')
    expect(() => Object.assign(created.metadata, { name: 'other' })).toThrow()
  })

  test('a stale update conflicts, an update without changes keeps the version', () => {
    const first = api.create('configmaps', 'default', { metadata: { name: 'a' }, data: { x: '1' } })
    expect(api.update('configmaps', structuredClone(first)).metadata.resourceVersion).toBe(
      first.metadata.resourceVersion,
    )
    api.patch('configmaps', 'default', 'a', { data: { x: '2' } })
    expect(() => api.update('configmaps', structuredClone(first))).toThrow(
      'the object has been modified',
    )
  })

  test('a deleted Pod on a node waits for its kubelet, a Pod without a node is removed immediately', () => {
    api.create('pods', 'default', pod('free'))
    api.delete('pods', 'default', 'free')
    expect(api.get('pods', 'default', 'free')).toBeUndefined()
    api.create('pods', 'default', pod('bound', 'worker'))
    api.delete('pods', 'default', 'bound', { gracePeriodSeconds: 10 })
    expect(api.get('pods', 'default', 'bound')?.metadata).toMatchObject({
      deletionTimestamp: '2026-01-02T03:04:15Z',
      deletionGracePeriodSeconds: 10,
    })
    api.delete('pods', 'default', 'bound', { gracePeriodSeconds: 2 })
    expect(api.get('pods', 'default', 'bound')?.metadata.deletionTimestamp).toBe(
      '2026-01-02T03:04:07Z',
    )
    api.delete('pods', 'default', 'bound', { gracePeriodSeconds: 0 })
    expect(() => api.delete('pods', 'default', 'bound')).toThrow('pods "bound" not found')
  })

  test('a Pod keeps its specification, but for images and the first node', () => {
    api.create('pods', 'default', pod('fixed'))
    api.patch('pods', 'default', 'fixed', {
      spec: { nodeName: 'worker', containers: [{ name: 'a', image: 'c' }] },
    })
    const change = { spec: { dnsPolicy: 'Default' } }
    expect(() => api.patch('pods', 'default', 'fixed', change)).toThrow(
      'pod updates may not change fields other than',
    )
    expect(() => api.patch('pods', 'default', 'fixed', { spec: { nodeName: 'other' } })).toThrow(
      'pod updates may not',
    )
    const without = { spec: { containers: null } }
    expect(() => api.patch('pods', 'default', 'fixed', without)).toThrow(
      'spec.containers: Required value',
    )
  })

  test.each([
    [
      'nodeAffinity',
      { requiredDuringSchedulingIgnoredDuringExecution: {} },
      'nodeSelectorTerms: Required value',
    ],
    [
      'podAntiAffinity',
      { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, topologyKey: 'a' }] },
      '[0].podAffinityTerm.topologyKey: Required value',
    ],
  ])('a rule of %s that the scheduler cannot read is refused', (kind, rules, fault) => {
    const { metadata, spec } = pod('lost')
    const draft = { metadata, spec: { ...(spec as object), affinity: { [kind]: rules } } }
    expect(() => api.create('pods', 'default', draft)).toThrow(fault)
  })

  test('a number that is 0 because Go has no absent value for it is left open', () => {
    const zeros = { timeoutSeconds: 0, periodSeconds: 0, successThreshold: 0, failureThreshold: 0 }
    const livenessProbe = { ...zeros, initialDelaySeconds: 0, exec: { command: ['true'] } }
    const container = {
      name: 'a',
      image: 'b',
      ports: [{ containerPort: 80, hostPort: 0 }],
      livenessProbe,
    }
    const labels = { app: 'a' }
    const stored = {
      ports: [{ containerPort: 80, protocol: 'TCP' }],
      livenessProbe: {
        timeoutSeconds: 1,
        periodSeconds: 10,
        successThreshold: 1,
        failureThreshold: 3,
      },
    }
    const spec = { containers: [container] }
    expect(api.create('pods', 'default', { metadata: { name: 'a' }, spec })).toMatchObject({
      spec: { containers: [stored] },
    })
    const template = { metadata: { labels }, spec }
    const strategy = { type: '' }
    const deployment = {
      metadata: { name: 'a' },
      spec: { selector: { matchLabels: labels }, template, strategy },
    }
    expect(api.create('deployments', 'default', deployment)).toMatchObject({
      spec: { template: { spec: { containers: [stored] } }, strategy: { type: 'RollingUpdate' } },
    })
    for (const hostPort of [-1, 65_536]) {
      const wrong = {
        containers: [{ name: 'a', image: 'b', ports: [{ containerPort: 80, hostPort }] }],
      }
      expect(() => api.create('pods', 'default', { metadata: { name: 'b' }, spec: wrong })).toThrow(
        'hostPort: Invalid',
      )
    }
  })

  const [probe, rolling] = [{ initialDelaySeconds: 1 }, { maxUnavailable: 0, maxSurge: '0%' }]
  const template = { metadata: { labels: { app: 'a' } }, spec: pod('a').spec }
  const selector = { matchLabels: { app: 'a' } }
  test.each([
    ['pods', {}, 'spec.containers: Required value'],
    [
      'pods',
      { containers: [{ name: 'a', image: 'b', livenessProbe: probe }] },
      'must specify a handler type',
    ],
    [
      'pods',
      { containers: [{ name: 'a', image: ' b' }] },
      'must not have leading or trailing whitespace',
    ],
    [
      'pods',
      { ...pod('a').spec, initContainers: [{ name: 'a', image: 'b' }] },
      'initContainers[0].name: Duplicate value: "a"',
    ],
    [
      'pods',
      { containers: [{ name: 'a', image: 'b', volumeMounts: [{ name: 'v', mountPath: '/v' }] }] },
      'spec.containers[0].volumeMounts[0].name: Not found: "v"',
    ],
    ['deployments', {}, 'spec.selector: Required value'],
    ['deployments', { selector: {}, template }, 'empty selector is invalid'],
    [
      'deployments',
      { selector, template, strategy: { rollingUpdate: rolling } },
      'may not be 0 when `maxSurge` is 0',
    ],
    ['jobs', { template }, 'Unsupported value: "Always": supported values: "Never", "OnFailure"'],
    [
      'cronjobs',
      { schedule: '* * *' },
      'spec.schedule: Invalid value: "* * *": expected exactly 5 fields, found 3',
    ],
  ])('%s with the specification %j is refused', (resource, spec, fault) => {
    expect(() => api.create(resource, 'default', { metadata: { name: 'wrong' }, spec })).toThrow(
      fault,
    )
  })

  test('an IPv4-mapped address is one of a slice for IPv4, and of none for IPv6', () => {
    const create = (addressType: string) =>
      api.create('endpointslices', 'default', {
        metadata: { name: addressType.toLowerCase() },
        addressType,
        endpoints: [{ addresses: ['::ffff:10.244.1.5'] }],
      })
    expect(create('IPv4')).toMatchObject({ endpoints: [{ addresses: ['::ffff:10.244.1.5'] }] })
    expect(() => create('IPv6')).toThrow('must be an IPv6 address')
  })

  test('a deleted namespace is removed with its last object, and accepts no new one before', () => {
    api.create('namespaces', undefined, { metadata: { name: 'team' } })
    api.create('pods', 'team', pod('slow', 'worker'))
    api.delete('namespaces', undefined, 'team')
    expect(api.get('namespaces', undefined, 'team')).toMatchObject({
      status: { phase: 'Terminating' },
    })
    expect(() => api.create('pods', 'team', pod('late'))).toThrow('because it is being terminated')
    api.delete('pods', 'team', 'slow', { gracePeriodSeconds: 0 })
    expect(api.get('namespaces', undefined, 'team')).toBeUndefined()
  })
})

interface ServiceChange {
  name: string
  action: 'create' | 'type' | 'delete'
  type: 'ClusterIP' | 'NodePort' | 'LoadBalancer'
  policy: string
}

/** Makes a change, unless it is one to a Service that exists or does not. */
function play(to: Api, { name, action, type, policy }: ServiceChange): void {
  if ((to.get('services', 'default', name) === undefined) !== (action === 'create')) return
  const spec = { type, ...(type !== 'ClusterIP' && { externalTrafficPolicy: policy }) }
  const ports = ['a', 'b'].map((port, index) => ({ name: port, port: 80 + index }))
  if (action === 'create')
    to.create('services', 'default', { metadata: { name }, spec: { ...spec, ports } })
  else if (action === 'type') to.patch('services', 'default', name, { spec })
  else to.delete('services', 'default', name)
}

/**
 * No address and no port is allocated twice, and exactly the Services with node ports have some.
 */
function expectAllocatedOnce(services: readonly Service[]): void {
  const addresses = services.map(({ spec }) => spec.clusterIP)
  expect(new Set(addresses).size).toBe(services.length)
  const ports = services.flatMap(({ spec }) => [
    ...spec.ports.flatMap(({ nodePort }) => nodePort ?? []),
    ...(spec.healthCheckNodePort ? [spec.healthCheckNodePort] : []),
  ])
  expect(new Set(ports).size).toBe(ports.length)
  for (const { spec } of services)
    for (const { nodePort } of spec.ports)
      expect(nodePort !== undefined).toBe(spec.type !== 'ClusterIP')
}

describe('allocation for Services', () => {
  const types = ['ClusterIP', 'NodePort', 'LoadBalancer'] as const
  const step = fc.record({
    name: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    action: fc.constantFrom('create', 'type', 'delete'),
    type: fc.constantFrom(...types),
    policy: fc.constantFrom('Cluster', 'Local'),
  })

  test('every address and port is allocated once, where it is needed, and released', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        // Just enough for five Services, so that a missing release is noticed.
        const tight = createClusterApi({
          serviceCIDR: '10.96.0.0/29',
          nodePortRange: [30_000, 30_014],
        })
        for (const change of steps) {
          play(tight, change)
          expectAllocatedOnce(tight.list<Service>('services'))
        }
      }),
    )
  })

  test('a full range is reported', () => {
    const tiny = createClusterApi({ serviceCIDR: '10.96.0.0/30', nodePortRange: [30_000, 30_000] })
    const create = (name: string, type: string) =>
      tiny.create('services', 'default', {
        metadata: { name },
        spec: { type, ports: [{ port: 80 }] },
      })
    create('a', 'NodePort')
    expect(() => create('b', 'ClusterIP')).toThrow('range is full')
  })

  test('ports with one number and two protocols share a node port', () => {
    const { spec } = api.create<Service>('services', 'default', {
      metadata: { name: 'dns' },
      spec: {
        type: 'NodePort',
        ports: ['UDP', 'TCP'].map((protocol) => ({
          name: protocol.toLowerCase(),
          port: 53,
          protocol,
        })),
      },
    })
    expect(spec.ports[0]?.nodePort).toBe(spec.ports[1]?.nodePort)
  })
})
