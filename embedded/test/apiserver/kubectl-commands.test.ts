import { describe, expect, test } from 'vitest'
import { useCluster } from './test-cluster.ts'

const cluster = useCluster()

describe('imperative commands', () => {
  test('create, expose, scale, set image, label and annotate a Deployment', async () => {
    expect(
      await cluster.ok('create deployment web --image=nginx --replicas=2 --port=80'),
    ).toContain('created')
    expect(await cluster.ok('expose deployment web --port=80 --type=NodePort')).toContain(
      'service/web exposed',
    )
    await cluster.ok('scale deployment web --replicas=5')
    await cluster.ok('set image deployment/web nginx=nginx:1.27')
    await cluster.ok('label deployment web tier=front')
    await cluster.ok('annotate deployment web note=hello')
    const [web] = cluster.api.list('deployments', { labelSelector: 'tier=front' })
    expect(web).toMatchObject({
      metadata: { name: 'web', generation: 3, annotations: { note: 'hello' } },
      spec: { replicas: 5, template: { spec: { containers: [{ image: 'nginx:1.27' }] } } },
    })
    expect(await cluster.ok('label deployment web tier-')).toContain('unlabeled')
    const printed = await cluster.ok('get service web -o jsonpath={.spec.ports[0].nodePort}')
    expect(Number(printed)).toBeGreaterThanOrEqual(30_000)
  })

  test('create secrets, config maps, namespaces, accounts and pods', async () => {
    await cluster.ok('create secret generic keys --from-literal=password=geheim')
    expect(await cluster.ok('get secret keys -o jsonpath={.data.password}')).toBe(
      Buffer.from('geheim').toString('base64'),
    )
    await cluster.ok('create configmap settings --from-literal=mode=ipvs')
    expect(await cluster.ok('get configmap settings -o jsonpath={.data.mode}')).toBe('ipvs')
    await cluster.ok('create namespace team')
    await cluster.ok('create serviceaccount robot -n team')
    expect(await cluster.ok('get serviceaccounts -n team -o name')).toBe(
      'serviceaccount/default\nserviceaccount/robot\n',
    )
    await cluster.ok('run probe --image=busybox -n team --env=A=b -- sleep 60')
    expect(cluster.api.get('pods', 'team', 'probe')).toMatchObject({
      spec: {
        containers: [{ args: ['sleep', '60'], env: [{ name: 'A', value: 'b' }] }],
        serviceAccountName: 'default',
      },
      status: { phase: 'Pending' },
    })
    expect(await cluster.ok('delete namespace team')).toContain('deleted')
    expect(cluster.api.list('pods', { namespace: 'team' })).toEqual([])
    expect(cluster.api.get('namespaces', undefined, 'team')).toBeUndefined()
  })

  test('api-resources and version', async () => {
    const resources = await cluster.ok('api-resources')
    expect(resources).toMatch(/^endpointslices\s+discovery\.k8s\.io\/v1\s+true\s+EndpointSlice$/m)
    expect(resources).toMatch(/^services\s+svc\s+v1\s+true\s+Service$/m)
    expect(await cluster.ok('version -o json')).toContain('v1.34.11')
  })

  test('auth reports a user who may do everything', async () => {
    expect(await cluster.ok('auth can-i get pods')).toBe('yes\n')
    expect(await cluster.ok('auth can-i delete nodes --all-namespaces')).toBe('yes\n')
    expect(await cluster.ok('auth can-i --list')).toMatch(/^\*\.\*\s+\[\]\s+\[\]\s+\[\*\]$/m)
    const who = await cluster.ok('auth whoami')
    expect(who).toMatch(/^Username\s+kubernetes-admin$/m)
    expect(who).toMatch(/^Groups\s+\[system:masters system:authenticated\]$/m)
  })

  test('events are shown for their object', async () => {
    cluster.api.create('events', 'default', {
      metadata: { generateName: 'web.' },
      involvedObject: {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        name: 'web',
        namespace: 'default',
      },
      reason: 'ScalingReplicaSet',
      message: 'Scaled up replica set web-1 from 0 to 2',
      type: 'Normal',
      source: { component: 'deployment-controller' },
      firstTimestamp: new Date().toISOString(),
      lastTimestamp: new Date().toISOString(),
      count: 1,
    })
    expect(await cluster.ok('get events')).toMatch(
      /Normal\s+ScalingReplicaSet\s+deployment\/web\s+Scaled up replica set/,
    )
    expect(await cluster.ok('events --for deployment/web')).toContain('ScalingReplicaSet')
    expect(await cluster.ok('get events --field-selector involvedObject.kind=Service')).toContain(
      'No resources found',
    )
  })
})
