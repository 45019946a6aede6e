import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { ConsentError } from '../../cluster/consent.ts'
import { ownKubeconfig } from '../../cluster/context/own-objects.ts'
import { ForeignObjectError } from '../../cluster/context/write-guard.ts'
import { clientFromKubeconfig } from '../../cluster/kube-client.ts'
import { KubernetesObjectApi } from '../../cluster/kubernetes.ts'
import { madeCluster, PLAIN } from './made-cluster.ts'

const folder = mkdtempSync(join(tmpdir(), 'kube-client-'))
afterAll(() => rmSync(folder, { recursive: true }))
const namespace = 'default'
const ours = { 'app.kubernetes.io/managed-by': 'kube-service-labs' }
/** Every request that changes something, and what it sent. */
let writes: { request: string; body: string }[] = []
let objects: Record<
  string,
  { metadata: { name: string; labels?: Record<string, string> }; spec?: object }
> = {}
let resources: object
let server: Server
let answer: RequestListener

/** What the API has at a path: the list of its resources, an object, or a list of objects. */
function foundAt(path: string): object | undefined {
  if (path === '/api/v1') return resources
  if (!/\/(pods|services)$/.test(path)) return objects[path]
  const items = Object.entries(objects).filter(([key]) => key.startsWith(`${path}/`))
  return { items: items.map(([, object]) => object) }
}

beforeEach(async () => {
  writes = []
  // What the generic client asks first.
  const pods = { name: 'pods', kind: 'Pod', namespaced: true, singularName: 'pod', verbs: [] }
  resources = { kind: 'APIResourceList', groupVersion: 'v1', resources: [pods] }
  objects = {}
  answer = (request, response) => {
    const path = (request.url ?? '').split('?')[0] ?? ''
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      if (request.method !== 'GET') writes.push({ request: `${request.method} ${path}`, body })
      const found = request.method === 'GET' ? foundAt(path) : JSON.parse(body || '{}')
      response.statusCode = found ? 200 : 404
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(found ?? { kind: 'Status', code: 404 }))
    })
  }
  server = createServer((request, response) => answer(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  vi.stubEnv('YES', '')
})
afterEach(() => {
  vi.unstubAllEnvs()
  server.closeAllConnections()
  server.close()
  rmSync(join(folder, 'config'), { force: true })
})

/** `below` is the path of a server that is not at the root of its host. */
async function client(ownedByUser = true, below = '') {
  const { port } = server.address() as AddressInfo
  const kubeconfig = join(folder, 'config')
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'x',
        cluster: { server: `http://127.0.0.1:${port}${below}`, 'insecure-skip-tls-verify': true },
      },
    ],
    users: [{ name: 'x', user: {} }],
    contexts: [{ name: 'x', context: { cluster: 'x', user: 'x' } }],
    'current-context': 'x',
  }
  writeFileSync(kubeconfig, JSON.stringify(config))
  return clientFromKubeconfig({
    capabilities: { ...PLAIN, ownedByUser },
    name: 'theirs',
    kubeconfig,
    unexpectedEnd: () => undefined,
  })
}

describe('a cluster that is not ours', () => {
  test('is not changed without consent, whichever API is used; it is read without', async () => {
    const { core, apps, config } = await client()
    const generic = KubernetesObjectApi.makeApiClient(config)
    const body = { metadata: { name: 'x', namespace } }
    for (const write of [
      () => core.createNamespacedConfigMap({ namespace, body }),
      () => apps.deleteNamespacedDeployment({ namespace, name: 'x' }),
      () => core.patchNode({ name: 'x', body: {} }),
      () => generic.create({ apiVersion: 'v1', kind: 'Pod', ...body }),
      () => generic.delete({ apiVersion: 'v1', kind: 'Pod', ...body }),
    ])
      await expect(write()).rejects.toThrow(ConsentError)
    expect(writes).toEqual([])
    expect((await core.listNamespacedPod({ namespace })).items).toEqual([])
  })

  test('keeps every object without our label, except kube-proxy and nodes, which the labs change', async () => {
    vi.stubEnv('YES', '1')
    const { core, apps } = await client()
    objects['/apis/apps/v1/namespaces/default/deployments/web'] = { metadata: { name: 'web' } }
    objects['/api/v1/namespaces/default/configmaps/lab-1'] = {
      metadata: { name: 'lab-1', labels: { app: 'x' } },
    }
    objects['/api/v1/namespaces/kube-system/configmaps/coredns'] = { metadata: { name: 'coredns' } }
    objects['/api/v1/namespaces/kube-system/configmaps/kube-proxy'] = {
      metadata: { name: 'kube-proxy' },
    }
    objects['/api/v1/nodes/one'] = { metadata: { name: 'one' } }
    for (const write of [
      () => apps.deleteNamespacedDeployment({ namespace, name: 'web' }),
      () => apps.patchNamespacedDeploymentScale({ namespace, name: 'web', body: {} }),
      () => core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'lab-1' } } }),
      () =>
        core.replaceNamespacedConfigMap({
          namespace,
          name: 'lab-1',
          body: { metadata: { name: 'lab-1' } },
        }),
      () => core.patchNamespacedConfigMap({ namespace: 'kube-system', name: 'coredns', body: {} }),
      () => core.deleteNode({ name: 'one' }),
      () => core.deleteCollectionNamespacedPod({ namespace }),
    ])
      await expect(write()).rejects.toThrow(
        /does not belong to these labs|are not changed in a cluster of your kubeconfig/,
      )
    expect(writes).toEqual([])
    await core.patchNamespacedConfigMap({ namespace: 'kube-system', name: 'kube-proxy', body: {} })
    await core.patchNode({ name: 'one', body: {} })
    expect(writes).toHaveLength(2)
  })

  test('gets objects with our label, also on the Pods of their templates', async () => {
    vi.stubEnv('YES', '1')
    const { apps } = await client()
    const template = { metadata: { labels: { app: 'web' } } }
    const body = {
      metadata: { name: 'web' },
      spec: { selector: { matchLabels: { app: 'web' } }, template },
    }
    await apps.createNamespacedDeployment({ namespace, body })
    expect(JSON.parse(writes[0]?.body ?? '')).toMatchObject({
      metadata: { name: 'web', labels: ours },
      spec: { template: { metadata: { labels: { app: 'web', ...ours } } } },
    })
    objects['/apis/apps/v1/namespaces/default/deployments/web'] = {
      metadata: { name: 'web', labels: ours },
    }
    await apps.deleteNamespacedDeployment({ namespace, name: 'web' })
    expect(writes.at(-1)?.request).toBe('DELETE /apis/apps/v1/namespaces/default/deployments/web')
  })

  test('never has Services of others that select our Pods, nor ours that select theirs', async () => {
    vi.stubEnv('YES', '1')
    const { core } = await client()
    objects['/api/v1/namespaces/default/pods/theirs'] = {
      metadata: { name: 'theirs', labels: { app: 'web' } },
    }
    objects['/api/v1/namespaces/default/services/theirs'] = {
      metadata: { name: 'theirs' },
      spec: { selector: { app: 'client' } },
    }
    const service = { metadata: { name: 'web' }, spec: { selector: { app: 'web' } } }
    const pod = { metadata: { name: 'client', labels: { app: 'client' } } }
    await expect(core.createNamespacedService({ namespace, body: service })).rejects.toThrow(
      /mix with Pod "theirs"/,
    )
    await expect(core.createNamespacedPod({ namespace, body: pod })).rejects.toThrow(
      ForeignObjectError,
    )
    expect(writes).toEqual([])
  })

  test('is guarded in the same way behind a path of its server', async () => {
    vi.stubEnv('YES', '1')
    const below = '/k8s/clusters/c-1'
    const { core, read } = await client(true, below)
    objects[`${below}/api/v1/namespaces/default/pods/theirs`] = {
      metadata: { name: 'theirs', labels: { app: 'web' } },
    }
    const body = { metadata: { name: 'web' }, spec: { selector: { app: 'web' } } }
    await expect(core.createNamespacedService({ namespace, body })).rejects.toThrow(
      /mix with Pod "theirs"/,
    )
    await expect(core.deleteNamespacedPod({ namespace, name: 'theirs' })).rejects.toThrow(
      /does not belong/,
    )
    expect(await read('/api/v1/namespaces/default/pods/theirs')).toMatchObject({
      metadata: { name: 'theirs' },
    })
    expect(await read('/api/v1/namespaces/default/pods/nobody')).toBeUndefined()
  })

  test('a cluster of our own is changed without consent', async () => {
    const { core } = await client(false)
    await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'lab-1' } } })
    expect(writes).toEqual([
      {
        request: 'POST /api/v1/namespaces/default/configmaps',
        body: JSON.stringify({ metadata: { name: 'lab-1' } }),
      },
    ])
  })
})

describe('a server that sends nothing', () => {
  test.each<[string, RequestListener]>([
    ['at all', () => undefined],
    [
      'after its first words',
      (_request, response) => {
        response.write('{"items":')
      },
    ],
  ])('%s ends every request at a deadline', async (_when, silence) => {
    vi.stubEnv('LAB_TIMEOUT_SCALE', '0.01')
    answer = silence
    const { core } = await client(false)
    const reason = /gave no answer to GET \/api\/v1\/.* within 0 s/
    await expect(core.listNode()).rejects.toThrow(reason)
    await expect(core.readNamespacedPodLog({ namespace, name: 'x' })).rejects.toThrow(reason)
  })
})

describe('a context', () => {
  test('without a kubeconfig is refused without the default of the client', async () => {
    vi.stubEnv('KUBECONFIG', join(folder, 'nowhere'))
    const refusal = expect(ownKubeconfig('nope', folder)).rejects
    await refusal.toThrow(
      /^CLUSTER="context:nope" needs a kubeconfig, but "\S*nowhere" does not exist: name one with KUBECONFIG=\.$/,
    )
    writeFileSync(join(folder, 'broken'), '{ clusters: [')
    vi.stubEnv('KUBECONFIG', join(folder, 'broken'))
    await expect(ownKubeconfig('nope', folder)).rejects.toThrow(
      /^"\S*broken" is not a kubeconfig: [^\n]*$/,
    )
  })
})

test.each([
  [
    403,
    JSON.stringify({ kind: 'Status', message: 'nodes is forbidden: no rights' }),
    'nodes is forbidden: no rights',
  ],
  [500, JSON.stringify({ kind: 'Status', message: 'x'.repeat(1000) }), 'x'.repeat(300)],
  [502, '<html>Bad Gateway</html>', '<html>Bad Gateway</html>'],
  [500, 'null', 'null'],
])('a refusal to read with code %d is reported in its own words', async (code, body, reason) => {
  const { read } = await client()
  answer = (_request, response) => response.writeHead(code).end(body)
  await expect(read('/api/v1/nodes')).rejects.toThrow(
    new Error(`the API server answered ${code} to GET /api/v1/nodes: ${reason}`),
  )
})

test('a cluster without a kubeconfig is not up, and the message names no file', async () => {
  await expect(clientFromKubeconfig({ ...madeCluster(), name: 'ka' })).rejects.toThrow(
    'The cluster "ka" is not up: run `make up`.',
  )
})
