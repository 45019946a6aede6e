import { afterAll, beforeAll, expect, test } from 'vitest'
import type { KubeObject } from '../../apiserver/api.ts'
import { startControllers } from '../../controllers/controllers.ts'
import { type TestCluster, useCluster } from './test-cluster.ts'

interface Pod extends KubeObject {
  spec: { nodeName?: string }
  status?: { phase?: string }
}

const cluster = useCluster()
let stop = (): void => {}

/**
 * In place of a kubelet: every Pod on a node is Ready immediately, and is removed when it is
 * deleted.
 */
function runPods({ api }: TestCluster): void {
  api.watch<Pod>(
    'pods',
    (type, { metadata: { name, namespace, deletionTimestamp }, spec, status }) => {
      if (type === 'DELETED' || !spec.nodeName || !api.get('pods', namespace, name)) return
      if (deletionTimestamp) api.delete('pods', namespace, name, { gracePeriodSeconds: 0 })
      else if (status?.phase !== 'Running') {
        const conditions = ['Ready', 'ContainersReady'].map((condition) => ({
          type: condition,
          status: 'True',
          lastTransitionTime: new Date().toISOString(),
        }))
        api.patch(
          'pods',
          namespace,
          name,
          { status: { phase: 'Running', podIP: '10.244.1.2', conditions } },
          'status',
        )
      }
    },
  )
}

beforeAll(() => {
  cluster.api.create('nodes', undefined, {
    metadata: { name: 'worker' },
    status: {
      conditions: [{ type: 'Ready', status: 'True' }],
      allocatable: { cpu: '4', memory: '8Gi', pods: '110' },
    },
  })
  const controllers = startControllers(cluster.api)
  stop = () => controllers.stop()
  runPods(cluster)
})
afterAll(() => stop())

test('rollout status, history, restart and undo of a Deployment', async () => {
  await cluster.ok('create deployment web --image=nginx:1 --replicas=3')
  expect(await cluster.ok('rollout status deployment/web --timeout=20s')).toContain(
    'successfully rolled out',
  )
  await cluster.ok('set image deployment/web nginx=nginx:2')
  await cluster.ok('rollout status deployment/web --timeout=20s')
  const images = async () =>
    new Set(
      (
        await cluster.ok('get pods -l app=web -o jsonpath={.items[*].spec.containers[0].image}')
      ).split(' '),
    )
  expect(await images()).toEqual(new Set(['nginx:2']))
  expect(await cluster.ok('rollout history deployment/web')).toMatch(/^1 .*\n2 /m)
  await cluster.ok('rollout undo deployment/web')
  await cluster.ok('rollout status deployment/web --timeout=20s')
  expect(await images()).toEqual(new Set(['nginx:1']))
  await cluster.ok('rollout restart deployment/web')
  await cluster.ok('rollout status deployment/web --timeout=20s')
  expect(await cluster.ok('get deployment web')).toMatch(/web\s+3\/3\s+3\s+3/)
  expect(await cluster.ok('describe deployment web')).toContain(
    '3 desired | 3 updated | 3 total | 3 available',
  )
})

test('rollout of a DaemonSet', async () => {
  const manifest = (image: string) => `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: agent, image: '${image}'}]}
`
  await cluster.ok('apply -f -', manifest('agent:1'))
  await cluster.ok('rollout status daemonset/agent --timeout=20s')
  await cluster.ok('apply -f -', manifest('agent:2'))
  await cluster.ok('rollout status daemonset/agent --timeout=20s')
  expect(
    await cluster.ok('get pods -l app=agent -o jsonpath={.items[*].spec.containers[0].image}'),
  ).toBe('agent:2')
  const undo = await cluster.kubectl(['rollout', 'undo', 'daemonset/agent'])
  expect(undo.stderr).toContain(
    'the embedded cluster has no history of DaemonSets (`kubectl apply` the earlier manifest)',
  )
  expect(await cluster.ok('get daemonset agent -o wide')).toMatch(
    /agent\s+1\s+1\s+1\s+1\s+1\s+<none>/,
  )
})

test('drain evicts Pods; cordon and uncordon change the status of the node', async () => {
  await cluster.ok('drain worker --ignore-daemonsets --timeout=20s')
  expect(await cluster.ok('get nodes')).toContain('Ready,SchedulingDisabled')
  await cluster.ok('uncordon worker')
  expect(await cluster.ok('rollout status deployment/web --timeout=20s')).toContain(
    'successfully rolled out',
  )
})
