import { PassThrough } from 'node:stream'
import {
  ADD,
  CoreV1Api as Core,
  type CoreV1Api,
  DELETE,
  Exec,
  KubeConfig,
  type KubernetesObject,
  makeInformer,
  UPDATE,
  type V1Pod,
  type V1Status,
} from '@kubernetes/client-node'
import { beforeAll, expect, test } from 'vitest'
import { until, useCluster } from './test-cluster.ts'

const cluster = useCluster()
let config: KubeConfig
let core: CoreV1Api

beforeAll(() => {
  config = new KubeConfig()
  config.loadFromString(cluster.kubeconfig)
  core = config.makeApiClient(Core)
})

const namespace = 'default'

function draft(name: string): V1Pod {
  return {
    metadata: { name, labels: { app: name } },
    spec: { containers: [{ name: 'main', image: 'nginx' }] },
  }
}

test('create, read, list, replace, patch and delete', async () => {
  const created = await core.createNamespacedPod({ namespace, body: draft('crud') })
  expect(created.spec?.dnsPolicy).toBe('ClusterFirst')
  expect(created.metadata?.creationTimestamp).toBeInstanceOf(Date)
  const read = await core.readNamespacedPod({ namespace, name: 'crud' })
  if (read.metadata) read.metadata.labels = { app: 'crud', step: 'replaced' }
  await core.replaceNamespacedPod({ namespace, name: 'crud', body: read })
  const list = await core.listNamespacedPod({
    namespace,
    labelSelector: 'step in (replaced, other)',
  })
  expect(list.items.map((pod) => pod.metadata?.name)).toEqual(['crud'])
  await expect(
    core.replaceNamespacedPod({ namespace, name: 'crud', body: created }),
  ).rejects.toMatchObject({
    code: 409,
  })
  await core.patchNamespacedPod({
    namespace,
    name: 'crud',
    body: [{ op: 'remove', path: '/metadata/labels/step' }],
  })
  await core.deleteNamespacedPod({ namespace, name: 'crud' })
  await expect(core.readNamespacedPod({ namespace, name: 'crud' })).rejects.toMatchObject({
    code: 404,
  })
})

test('an informer receives the present objects, then every change', async () => {
  cluster.api.create('pods', namespace, {
    metadata: { name: 'early' },
    spec: { containers: [{ name: 'a', image: 'b' }] },
  })
  const seen: string[] = []
  const informer = makeInformer<V1Pod>(config, `/api/v1/namespaces/${namespace}/pods`, () =>
    core.listNamespacedPod({ namespace }),
  )
  const note = (type: string) => (pod: KubernetesObject) => {
    seen.push(`${type} ${pod.metadata?.name}`)
  }
  informer.on(ADD, note('add'))
  informer.on(UPDATE, note('update'))
  informer.on(DELETE, note('delete'))
  await informer.start()
  await until('the list is known', () => seen.includes('add early'))
  cluster.api.patch('pods', namespace, 'early', { metadata: { labels: { a: 'b' } } })
  cluster.api.delete('pods', namespace, 'early')
  await until('the Pod is gone', () => seen.includes('delete early'))
  expect(seen).toEqual(['add early', 'update early', 'delete early'])
  await informer.stop()
})

test('exec in a Pod: output, terminal size and status', async () => {
  await core.createNamespacedPod({ namespace, body: draft('shell') })
  const out = new PassThrough()
  let text = ''
  out.on('data', (chunk) => {
    text += chunk
  })
  const status = await new Promise<V1Status>((resolve, reject) => {
    new Exec(config)
      .exec(
        namespace,
        'shell',
        'main',
        ['sh', '-c', 'echo hello; exit 3'],
        out,
        null,
        null,
        false,
        resolve,
      )
      .catch(reject)
  })
  expect(text).toBe('hello\n')
  expect(status).toMatchObject({ status: 'Failure', reason: 'NonZeroExitCode' })
  expect(status.details?.causes).toEqual([{ reason: 'ExitCode', message: '3' }])
})

test('exec on a node, which only this cluster has', async () => {
  cluster.api.create('nodes', undefined, { metadata: { name: 'worker' } })
  const query = 'command=sh&command=-c&command=exec+cat&stdin=true&stdout=true&tty=true'
  const socket = cluster.connect(`/api/v1/nodes/worker/exec?${query}`)
  const channels = new Map<number, string>()
  socket.on('message', (data: Buffer) => {
    const channel = data[0] ?? -1
    channels.set(channel, (channels.get(channel) ?? '') + String(data.subarray(1)))
  })
  await new Promise((resolve, reject) => socket.on('open', resolve).on('error', reject))
  socket.send(Buffer.from('\x04{"Width":120,"Height":40}'))
  socket.send(Buffer.from('\x00typed'))
  socket.send(Buffer.from([255, 0]))
  await new Promise((resolve) => socket.on('close', resolve))
  expect(channels.get(1)).toBe('typed')
  expect(JSON.parse(channels.get(3) ?? '')).toMatchObject({ status: 'Success' })
  expect(cluster.backend.execs.at(-1)?.target).toEqual({ kind: 'node', name: 'worker' })
  expect(cluster.backend.resizes).toContainEqual([120, 40])
})
