import { describe, expect, test } from 'vitest'
import { until, useCluster } from './test-cluster.ts'

const cluster = useCluster()

describe('reading', () => {
  test('get prints the columns of each kind, narrow and wide', async () => {
    cluster.createPod('shown', { nodeName: 'worker' })
    cluster.api.patch(
      'pods',
      'default',
      'shown',
      {
        status: {
          phase: 'Running',
          podIP: '10.244.1.9',
          containerStatuses: [
            { name: 'main', ready: true, restartCount: 2, state: { running: {} } },
          ],
        },
      },
      'status',
    )
    expect(await cluster.ok('get pod shown')).toMatch(
      /^NAME\s+READY\s+STATUS\s+RESTARTS\s+AGE\nshown\s+1\/1\s+Running\s+2\s+\d+s\n$/,
    )
    expect(await cluster.ok('get pod shown -o wide')).toMatch(
      /10\.244\.1\.9\s+worker\s+<none>\s+<none>/,
    )
    expect(
      await cluster.ok('get pods --show-labels --field-selector spec.nodeName=worker'),
    ).toContain('app=shown')
    expect(await cluster.ok('get pod shown -o custom-columns=IP:.status.podIP')).toBe(
      'IP\n10.244.1.9\n',
    )
    expect(await cluster.ok('get pod shown -o yaml')).toMatch(/^apiVersion: v1\nkind: Pod\n/)
    expect(JSON.parse(await cluster.ok('get pods -o json')).items.length).toBeGreaterThan(0)
    expect(await cluster.ok('get services -o wide')).toMatch(
      /TYPE\s+CLUSTER-IP\s+EXTERNAL-IP\s+PORT\(S\)\s+AGE\s+SELECTOR/,
    )
    expect(await cluster.ok('get all -A')).toContain('service/kubernetes')
  })

  test('describe works for pods, services, deployments and nodes', async () => {
    cluster.api.create('nodes', undefined, {
      metadata: { name: 'worker', labels: { 'node-role.kubernetes.io/edge': '' } },
      status: {
        conditions: [{ type: 'Ready', status: 'True' }],
        nodeInfo: { kubeletVersion: 'v1.34.11' },
      },
    })
    cluster.createPod('described')
    await cluster.ok('create deployment described --image=nginx')
    await cluster.ok('create service clusterip described --tcp=80:80')
    expect(await cluster.ok('get nodes')).toMatch(/worker\s+Ready\s+edge\s+\d+s\s+v1\.34\.11/)
    for (const what of [
      'node/worker',
      'pod/described',
      'deployment/described',
      'service/described',
    ]) {
      expect(await cluster.ok(`describe ${what}`)).toContain(what.split('/')[1] ?? '')
    }
  })

  test('get -w shows changes, wait returns on a condition', async () => {
    cluster.createPod('watched')
    const child = cluster.start(['get', 'pods', '-w', '--field-selector', 'metadata.name=watched'])
    let seen = ''
    child.stdout?.on('data', (chunk) => {
      seen += chunk
    })
    await until('the Pod is listed', () => seen.includes('watched'))
    const waiting = cluster.ok('wait --for=condition=Ready pod/watched --timeout=20s')
    const ready = { conditions: [{ type: 'Ready', status: 'True' }], phase: 'Running' }
    cluster.api.patch('pods', 'default', 'watched', { status: ready }, 'status')
    expect(await waiting).toContain('condition met')
    await until('the change is printed', () => /watched\s+0\/1\s+Running/.test(seen))
    child.kill('SIGKILL')
  })

  test('delete waits until the kubelet has ended a Pod on a node', async () => {
    cluster.createPod('ending', { nodeName: 'worker' })
    const deleting = cluster.ok('delete pod ending')
    const ending = () => cluster.api.get('pods', 'default', 'ending')
    await until(
      'the Pod is being deleted',
      () => ending()?.metadata.deletionTimestamp !== undefined,
    )
    expect(ending()?.metadata.deletionGracePeriodSeconds).toBe(30)
    expect(await cluster.ok('get pod ending')).toContain('Terminating')
    cluster.api.delete('pods', 'default', 'ending', { gracePeriodSeconds: 0 })
    expect(await deleting).toContain('pod "ending" deleted')
  })
})
