import { describe, expect, test } from 'vitest'
import { createKubernetesEndpoints } from '../../controllers/endpoints.ts'
import type { EndpointSliceObject, Endpoints } from '../../controllers/resources.ts'
import { cluster, useTestCluster, workers } from './cluster.ts'
import { pod, service } from './manifests.ts'

useTestCluster()

const endpoints = (name = 'web') => cluster.slices(name).flatMap((slice) => slice.endpoints ?? [])
const legacy = (name = 'web') => cluster.api.get<Endpoints>('endpoints', 'default', name)

async function create(
  serviceSpec: Record<string, unknown> = {},
  ...pods: ReturnType<typeof pod>[]
) {
  cluster.api.create('services', 'default', service('web', serviceSpec))
  for (const draft of pods) cluster.api.create('pods', 'default', draft)
  await cluster.settled()
}

const web = (name: string, spec: Record<string, unknown> = {}) => pod(name, spec, { app: 'web' })

test('a Service has the slice that kube-proxy reads', async () => {
  await create({}, web('a', { nodeName: workers[0] }))
  const [slice] = cluster.slices('web')
  const stored = cluster.api.get('pods', 'default', 'a')
  expect(slice).toMatchObject({
    addressType: 'IPv4',
    ports: [{ name: '', port: 80, protocol: 'TCP' }],
    metadata: {
      generateName: 'web-',
      labels: {
        app: 'web',
        'kubernetes.io/service-name': 'web',
        'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
      },
      ownerReferences: [
        { kind: 'Service', name: 'web', controller: true, blockOwnerDeletion: true },
      ],
    },
  })
  expect(slice?.endpoints).toEqual([
    {
      addresses: ['10.244.0.2'],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: workers[0],
      targetRef: { kind: 'Pod', namespace: 'default', name: 'a', uid: stored?.metadata.uid },
    },
  ])
})

test('an endpoint goes through ready, unready, terminating and gone', async () => {
  await create({}, web('a'))
  const conditions = () => endpoints()[0]?.conditions
  expect(conditions()).toEqual({ ready: true, serving: true, terminating: false })
  cluster.kubelet.setReady('a', false)
  await cluster.settled()
  expect(conditions()).toEqual({ ready: false, serving: false, terminating: false })
  expect(legacy()?.subsets).toMatchObject([{ notReadyAddresses: [{ ip: '10.244.0.2' }] }])
  cluster.kubelet.setReady('a', true)
  cluster.kubelet.autoFinish = false
  cluster.api.delete('pods', 'default', 'a')
  await cluster.settled()
  expect(conditions()).toEqual({ ready: false, serving: true, terminating: true })
  expect(legacy()?.subsets ?? []).toEqual([])
  cluster.kubelet.setReady('a', false)
  await cluster.settled()
  expect(conditions()).toEqual({ ready: false, serving: false, terminating: true })
  cluster.kubelet.finish('a')
  await cluster.settled()
  expect(endpoints()).toEqual([])
  // Kubernetes keeps one empty slice for a Service without endpoints.
  expect(cluster.slices('web')).toHaveLength(1)
})

test('publishNotReadyAddresses makes every address ready', async () => {
  cluster.kubelet.autoReady = false
  await create({ publishNotReadyAddresses: true }, web('a'))
  expect(endpoints()[0]?.conditions).toEqual({ ready: true, serving: false, terminating: false })
  expect(legacy()?.subsets).toMatchObject([{ addresses: [{ ip: '10.244.0.2' }] }])
})

test('Pods without an address, and Pods that ended, are no endpoints', async () => {
  await create(
    {},
    web('pending', { nodeSelector: { nowhere: 'yes' } }),
    web('ended'),
    web('running'),
  )
  cluster.kubelet.setPhase('ended', 'Succeeded')
  await cluster.settled()
  expect(endpoints().map(({ targetRef }) => targetRef?.name)).toEqual(['running'])
})

test('a named target port is each Pod’s own number; Pods with different numbers are in different slices', async () => {
  const containers = (containerPort: number) => [
    { name: 'a', image: 'nginx', ports: [{ name: 'http', containerPort }] },
  ]
  const ports = [{ name: 'web', port: 80, targetPort: 'http' }]
  await create(
    { ports },
    web('a', { containers: containers(8080) }),
    web('b', { containers: containers(9090) }),
    web('c'),
  )
  const found = cluster
    .slices('web')
    .map((slice) => [slice.endpoints?.map(({ targetRef }) => targetRef?.name), slice.ports])
  expect(found).toHaveLength(3)
  expect(found).toEqual(
    expect.arrayContaining([
      [['a'], [{ name: 'web', port: 8080, protocol: 'TCP' }]],
      [['b'], [{ name: 'web', port: 9090, protocol: 'TCP' }]],
    ]),
  )
  expect(
    legacy()
      ?.subsets?.map((subset) => subset.ports?.[0]?.port)
      .sort(),
  ).toEqual([8080, 9090])
})

test('host network Pods have their node’s address', async () => {
  await create(
    {},
    web('a', { hostNetwork: true, nodeName: workers[0] }),
    web('b', { hostNetwork: true, nodeName: workers[1] }),
  )
  expect(
    endpoints()
      .map(({ addresses, nodeName }) => [addresses[0], nodeName])
      .sort(),
  ).toEqual([
    ['172.18.0.3', workers[0]],
    ['172.18.0.4', workers[1]],
  ])
})

test('endpoints of a headless Service have its label, and the host names of Pods in its subdomain', async () => {
  await create({ clusterIP: 'None', ports: [] }, web('a', { hostname: 'first', subdomain: 'web' }))
  expect(cluster.slices('web')[0]?.metadata.labels).toMatchObject({
    'service.kubernetes.io/headless': '',
  })
  expect(endpoints()[0]).toMatchObject({ hostname: 'first', addresses: ['10.244.0.2'] })
  expect(legacy()?.metadata.labels).toMatchObject({ 'service.kubernetes.io/headless': '' })
  expect(legacy()?.subsets).toMatchObject([{ addresses: [{ hostname: 'first' }] }])
})

test('a Service without selector, or of type ExternalName, gets nothing', async () => {
  cluster.api.create('services', 'default', service('manual', { selector: undefined }))
  cluster.api.create('services', 'default', {
    metadata: { name: 'far' },
    spec: { type: 'ExternalName', externalName: 'example.org' },
  })
  await cluster.settled()
  for (const name of ['manual', 'far', 'kubernetes']) {
    expect(cluster.slices(name)).toEqual([])
    expect(legacy(name)).toBeUndefined()
  }
})

test('the Service kubernetes leads to the API server', () => {
  createKubernetesEndpoints(cluster.api, { ip: '172.18.0.2', port: 6443 })
  const metadata = { name: 'kubernetes' }
  const ports = [{ name: 'https', port: 6443 }]
  expect(cluster.slices('kubernetes')).toMatchObject([
    { metadata, endpoints: [{ addresses: ['172.18.0.2'] }], ports },
  ])
  expect(legacy('kubernetes')?.subsets).toMatchObject([
    { addresses: [{ ip: '172.18.0.2' }], ports },
  ])
})

describe('changes', () => {
  test('of a Pod’s labels move it in and out', async () => {
    await create({}, web('a'), web('b'))
    cluster.api.patch('pods', 'default', 'a', { metadata: { labels: { app: 'debug' } } })
    await cluster.settled()
    expect(endpoints().map(({ targetRef }) => targetRef?.name)).toEqual(['b'])
    cluster.api.patch('services', 'default', 'web', { spec: { selector: { app: 'debug' } } })
    await cluster.settled()
    expect(endpoints().map(({ targetRef }) => targetRef?.name)).toEqual(['a'])
  })

  test('that do not affect endpoints write no slice', async () => {
    await create({}, web('a'))
    const before = cluster.slices('web')[0]?.metadata.resourceVersion
    cluster.api.patch('pods', 'default', 'a', { metadata: { annotations: { note: 'x' } } })
    cluster.api.patch('services', 'default', 'web', { spec: { sessionAffinity: 'ClientIP' } })
    await cluster.settled()
    expect(cluster.slices('web')[0]?.metadata.resourceVersion).toBe(before)
  })

  test('of the Service’s ports and labels keep the slice', async () => {
    await create({}, web('a'))
    const [before] = cluster.slices('web')
    cluster.api.patch('services', 'default', 'web', {
      metadata: { labels: { team: 'x' } },
      spec: { ports: [{ port: 80, targetPort: 8080 }] },
    })
    await cluster.settled()
    const [after, ...more] = cluster.slices('web')
    expect(more).toEqual([])
    expect(after?.metadata).toMatchObject({ uid: before?.metadata.uid, labels: { team: 'x' } })
    expect(after?.ports).toEqual([{ name: '', port: 8080, protocol: 'TCP' }])
  })

  test('by another client are corrected; deleting the Service deletes its slices', async () => {
    await create({}, web('a'))
    const [slice] = cluster.slices('web')
    if (!slice) throw new Error('no slice')
    cluster.api.update<EndpointSliceObject>('endpointslices', { ...slice, endpoints: [] })
    await cluster.settled()
    expect(endpoints()).toHaveLength(1)
    cluster.api.delete('endpointslices', 'default', slice.metadata.name)
    await cluster.settled()
    expect(endpoints()).toHaveLength(1)
    cluster.api.delete('services', 'default', 'web')
    await cluster.settled()
    expect(cluster.slices('web')).toEqual([])
    expect(legacy()).toBeUndefined()
  })
})
