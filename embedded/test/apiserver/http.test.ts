import { once } from 'node:events'
import { Agent, request } from 'node:https'
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { send } from './http-client.ts'
import { useCluster } from './test-cluster.ts'

const cluster = useCluster()
beforeAll(() => {
  for (let index = 0; index < 5; index++) {
    cluster.api.create('configmaps', 'default', {
      metadata: { name: `map-${index}`, labels: { n: String(index) } },
    })
  }
})

const maps = '/api/v1/namespaces/default/configmaps'
const get = (path: string, accept?: string) =>
  send(cluster, path, accept ? { headers: { accept } } : {})

/** Creates a Deployment with one replica. Returns its path. */
function createDeployment(name: string): string {
  const labels = { a: 'b' }
  const template = { metadata: { labels }, spec: { containers: [{ name: 'a', image: 'b' }] } }
  const spec = { selector: { matchLabels: labels }, template }
  cluster.api.create('deployments', 'default', { metadata: { name }, spec })
  return `/apis/apps/v1/namespaces/default/deployments/${name}`
}

/** The events of a watch until `count` have come. */
async function watch(query: string, count: number, accept = 'application/json') {
  const events: { type: string; object: Record<string, unknown> }[] = []
  await send(cluster, `${maps}?watch=1&${query}`, {
    headers: { accept },
    onLine: (line) => {
      events.push(JSON.parse(line))
      return events.length >= count
    },
  })
  return events.slice(0, count)
}

describe('answers', () => {
  test('errors are answered with a Status', async () => {
    expect(await send(cluster, maps, { headers: { authorization: '' } })).toMatchObject({
      code: 401,
      json: { reason: 'Unauthorized' },
    })
    expect(await get('/api/v1/gadgets')).toMatchObject({
      code: 404,
      json: { kind: 'Status', reason: 'NotFound' },
    })
    expect(await get('/apis/discovery.k8s.io/v1beta1')).toMatchObject({ code: 404 })
    expect(await get(`${maps}/map-0`, 'application/vnd.kubernetes.protobuf')).toMatchObject({
      code: 406,
    })
    expect(
      await get(`${maps}/map-0`, 'application/vnd.kubernetes.protobuf, application/json'),
    ).toMatchObject({
      code: 200,
    })
    expect(await send(cluster, maps, { method: 'PUT' })).toMatchObject({
      code: 405,
      json: { reason: 'MethodNotAllowed' },
    })
    const type = { 'content-type': 'text/plain' }
    expect(await send(cluster, maps, { method: 'POST', body: 'x', headers: type })).toMatchObject({
      code: 415,
    })
    expect(await send(cluster, maps, { method: 'POST', body: '{' })).toMatchObject({ code: 400 })
    expect(
      await send(cluster, maps, { method: 'POST', body: { kind: 'Pod', apiVersion: 'v1' } }),
    ).toMatchObject({
      code: 400,
    })
    const large = JSON.stringify({ data: { a: 'x'.repeat(4 * 1024 * 1024) } })
    expect(await send(cluster, maps, { method: 'POST', body: large })).toMatchObject({ code: 413 })
  })

  test('the line of a request may be as long as the command of an exec', async () => {
    const filler = 'a'.repeat(100_000)
    expect(await get(`${maps}/map-0?command=${filler}`)).toMatchObject({ code: 200 })
  })

  test('a body that is too large does not hold up the next request on its connection', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const body = JSON.stringify({ data: { a: 'x'.repeat(9 * 1024 * 1024) } })
    try {
      for (let attempt = 0; attempt < 3; attempt++) {
        expect(await send(cluster, maps, { method: 'POST', body, agent })).toMatchObject({
          code: 413,
        })
        expect(await send(cluster, maps, { agent })).toMatchObject({ code: 200 })
      }
    } finally {
      agent.destroy()
    }
  })

  test.each([
    ['objects', 'PATCH', `${'{"a":'.repeat(200_000)}1${'}'.repeat(200_000)}`],
    ['lists', 'POST', `{"data":${'['.repeat(20_000)}${']'.repeat(20_000)}}`],
  ])('%s that are nested too deep are refused', async (_, method, body) => {
    const headers = { 'content-type': 'application/merge-patch+json' }
    const path = method === 'PATCH' ? `${maps}/map-0` : maps
    expect(
      await send(cluster, path, { method, body, ...(method === 'PATCH' && { headers }) }),
    ).toMatchObject({
      code: 400,
      json: { message: expect.stringContaining('exceeded max depth') },
    })
  })

  test('brackets in texts are no nesting', async () => {
    const data = { a: `\\"${'['.repeat(20_000)}` }
    const headers = { 'content-type': 'application/merge-patch+json' }
    const body = JSON.stringify({ data })
    expect(await send(cluster, `${maps}/map-0`, { method: 'PATCH', body, headers })).toMatchObject({
      code: 200,
      json: { data },
    })
  })

  test('an EndpointSlice can be read as v1beta1, which names the node of an endpoint in its topology', async () => {
    const endpoints = [
      { addresses: ['10.244.1.2'], nodeName: 'k8s-guide-worker' },
      { addresses: ['10.244.1.3'] },
    ]
    cluster.api.create('endpointslices', 'default', {
      metadata: { name: 'old' },
      addressType: 'IPv4',
      endpoints,
    })
    const slices = '/apis/discovery.k8s.io/v1beta1/namespaces/default/endpointslices'
    const inTopology = [
      { ...endpoints[0], topology: { 'kubernetes.io/hostname': 'k8s-guide-worker' } },
      { addresses: ['10.244.1.3'] },
    ]
    expect((await get(slices)).json).toMatchObject({
      apiVersion: 'discovery.k8s.io/v1beta1',
      items: [{ metadata: { name: 'old' }, endpoints: inTopology }],
    })
    const watched: unknown[] = []
    await send(cluster, `${slices}?watch=1`, {
      onLine: (line) => watched.push(JSON.parse(line).object) > 0,
    })
    expect(watched).toMatchObject([
      { apiVersion: 'discovery.k8s.io/v1beta1', endpoints: inTopology },
    ])
    expect(await send(cluster, `${slices}/old`, { method: 'DELETE' })).toMatchObject({ code: 405 })
  })

  test('any path and any body gets a Status, never a failure of the server', async () => {
    const path = fc.array(
      fc.constantFrom(
        'api',
        'apis',
        'v1',
        'apps',
        'namespaces',
        'default',
        'pods',
        '%',
        '%2e',
        'status',
        'scale',
        'x',
      ),
    )
    const agent = new Agent({ keepAlive: true })
    await fc.assert(
      fc.asyncProperty(
        path,
        fc.constantFrom('GET', 'POST', 'PUT', 'PATCH', 'DELETE'),
        fc.uint8Array({ maxLength: 40 }),
        async (parts, method, body) => {
          const types = [
            'application/json',
            'application/vnd.kubernetes.protobuf',
            'application/apply-patch+yaml',
          ]
          for (const type of types) {
            const bytes = type.includes('protobuf')
              ? Buffer.concat([Buffer.from('k8s\0'), body])
              : Buffer.from(body)
            const headers = { 'content-type': type }
            const { code } = await send(cluster, `/${parts.join('/')}?dryRun=All`, {
              method,
              headers,
              agent,
              ...(method !== 'GET' && { body: bytes }),
            })
            expect(code).toBeLessThan(500)
          }
        },
      ),
      { numRuns: 60 },
    )
    agent.destroy()
  })

  test('unknown fields are refused or dropped with a warning', async () => {
    const body = { metadata: { name: 'unknown' }, dta: {} }
    const strict = await send(cluster, `${maps}?fieldValidation=Strict&dryRun=All`, {
      method: 'POST',
      body,
    })
    expect(strict.json.message).toContain('strict decoding error: unknown field "dta"')
    const warned = await send(cluster, `${maps}?dryRun=All`, { method: 'POST', body })
    expect(warned.headers.warning).toBe('299 - "unknown field \\"dta\\""')
    expect(warned.json).not.toHaveProperty('dta')
  })
})

describe('lists', () => {
  test('resourceVersion and selectors that cannot be served are refused', async () => {
    expect(await get(`${maps}?resourceVersion=0&resourceVersionMatch=NotOlderThan`)).toMatchObject({
      code: 200,
    })
    expect(await get(`${maps}?resourceVersion=999999`)).toMatchObject({
      code: 410,
      json: { reason: 'Expired' },
    })
    expect(await get(`${maps}?resourceVersion=abc`)).toMatchObject({ code: 400 })
    expect(await get(`${maps}?fieldSelector=data.x=1`)).toMatchObject({ code: 400 })
    expect(await get(`${maps}?labelSelector=a+b`)).toMatchObject({ code: 400 })
  })

  test('tables, with the metadata or the whole of each object', async () => {
    const table = (await get(maps, 'application/json;as=Table;v=v1;g=meta.k8s.io')).json
    expect(table.columnDefinitions?.map((column) => column.name)).toEqual(['Name', 'Data', 'Age'])
    expect(table.rows?.[0]?.object?.kind).toBe('PartialObjectMetadata')
    const whole = await get(
      `${maps}?includeObject=Object`,
      'application/json;as=Table;v=v1;g=meta.k8s.io',
    )
    expect(whole.json.rows?.[0]?.object?.kind).toBe('ConfigMap')
  })

  test.each([
    [{ parallelism: 1 }, '0/1'],
    [{ parallelism: 3 }, '0/1 of 3'],
    [{ completions: 4 }, '0/4'],
  ])('the completions of a Job with %j', async (spec, completions) => {
    const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'a', image: 'b' }] } }
    cluster.api.create('jobs', 'default', {
      metadata: { name: 'shown' },
      spec: { ...spec, template },
    })
    const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io'
    const { json } = await get('/apis/batch/v1/namespaces/default/jobs/shown', accept)
    expect(json.rows?.[0]?.cells[2]).toBe(completions)
    cluster.api.delete('jobs', 'default', 'shown')
  })

  test('a Pod with a sidecar is Running, and counts it', async () => {
    const [main, sidecar] = [
      { name: 'a', image: 'b' },
      { name: 'c', image: 'b', restartPolicy: 'Always' },
    ]
    cluster.api.create('pods', 'default', {
      metadata: { name: 'p' },
      spec: { containers: [main], initContainers: [sidecar] },
    })
    const cells = async (started: boolean) => {
      const state = { ready: true, started, state: { running: {} } }
      const statuses = (name: string, restartCount: number) => [{ name, restartCount, ...state }]
      const status = {
        phase: 'Running',
        containerStatuses: statuses('a', 0),
        initContainerStatuses: statuses('c', 2),
      }
      cluster.api.patch('pods', 'default', 'p', { status }, 'status')
      const { json } = await get(
        '/api/v1/namespaces/default/pods/p',
        'application/json;as=Table;v=v1;g=meta.k8s.io',
      )
      return json.rows?.[0]?.cells.slice(1, 4)
    }
    expect(await cells(true)).toEqual(['2/2', 'Running', '2'])
    expect((await cells(false))?.[1]).toBe('Init:0/1')
    cluster.api.delete('pods', 'default', 'p')
  })

  test('one Event without its object does not hide the others', async () => {
    cluster.api.create('events', 'default', { metadata: { name: 'bare' }, message: 'bare' })
    const events = '/api/v1/namespaces/default/events'
    const { code, json } = await get(events, 'application/json;as=Table;v=v1;g=meta.k8s.io')
    expect(code).toBe(200)
    expect(json.rows?.map(({ cells }) => cells.at(-1))).toContain('bare')
    cluster.api.delete('events', 'default', 'bare')
  })
})

describe('watches', () => {
  test('go on from a version without a gap, and see objects enter and leave a selection', async () => {
    const version = (await get(maps)).json.metadata?.resourceVersion
    const make = (labels: Record<string, string>) =>
      cluster.api.patch('configmaps', 'default', 'moving', { metadata: { labels } })
    cluster.api.create('configmaps', 'default', {
      metadata: { name: 'moving', labels: { in: 'no' } },
    })
    make({ in: 'yes' })
    make({ in: 'yes', more: 'x' })
    make({ in: 'no' })
    cluster.api.delete('configmaps', 'default', 'moving')
    const selected = await watch(`resourceVersion=${version}&labelSelector=in=yes`, 3)
    expect(selected.map((event) => event.type)).toEqual(['ADDED', 'MODIFIED', 'DELETED'])
    const all = await watch(`resourceVersion=${version}&fieldSelector=metadata.name=moving`, 5)
    expect(all.map((event) => event.type)).toEqual([
      'ADDED',
      'MODIFIED',
      'MODIFIED',
      'MODIFIED',
      'DELETED',
    ])
  })

  test('a version that is too old ends with 410', async () => {
    const map = cluster.api.read('configmaps', 'default', 'map-0')
    for (let index = 0; index < 40_100; index++)
      cluster.api.store.put('configmaps', structuredClone(map))
    const [event] = await watch('resourceVersion=1', 1)
    expect(event).toMatchObject({
      type: 'ERROR',
      object: { kind: 'Status', code: 410, reason: 'Expired' },
    })
  })

  test('are refused where the client asks for what is not served: it then lists first', async () => {
    const query =
      'sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan'
    expect(await get(`${maps}?watch=1&${query}`)).toMatchObject({
      code: 422,
      json: { reason: 'Invalid' },
    })
    expect(await get(`${maps}?watch=1&resourceVersion=abc`)).toMatchObject({ code: 400 })
    expect(await get(`${maps}?watch=1&resourceVersion=999999`)).toMatchObject({ code: 410 })
  })

  test('as a table: headers come once', async () => {
    const events = await watch('', 2, 'application/json;as=Table;v=v1;g=meta.k8s.io')
    expect(events.map((event) => (event.object.columnDefinitions as unknown[]).length)).toEqual([
      3, 0,
    ])
  })

  test('end by themselves after their time', async () => {
    const { code } = await get(
      `${maps}?watch=1&timeoutSeconds=1&resourceVersion=${cluster.api.store.revision}`,
    )
    expect(code).toBe(200)
  })
})

describe('writes', () => {
  test('deletes with preconditions and finalizers', async () => {
    cluster.api.create('configmaps', 'default', {
      metadata: { name: 'kept', finalizers: ['example.com/hold'] },
    })
    const wrong = await send(cluster, `${maps}/kept`, {
      method: 'DELETE',
      body: { preconditions: { uid: 'x' } },
    })
    expect(wrong).toMatchObject({ code: 409, json: { reason: 'Conflict' } })
    await send(cluster, `${maps}/kept`, { method: 'DELETE' })
    expect(
      cluster.api.get('configmaps', 'default', 'kept')?.metadata.deletionTimestamp,
    ).toBeDefined()
    const headers = { 'content-type': 'application/merge-patch+json' }
    await send(cluster, `${maps}/kept`, {
      method: 'PATCH',
      headers,
      body: { metadata: { finalizers: null } },
    })
    expect(cluster.api.get('configmaps', 'default', 'kept')).toBeUndefined()
  })

  test('status and specification are written apart', async () => {
    const path = createDeployment('apart')
    const headers = { 'content-type': 'application/merge-patch+json' }
    const body = { spec: { replicas: 4 }, status: { replicas: 9 } }
    const main = await send(cluster, path, { method: 'PATCH', headers, body })
    expect(main.json).toMatchObject({
      spec: { replicas: 4 },
      status: {},
      metadata: { generation: 2 },
    })
    const status = await send(cluster, `${path}/status`, {
      method: 'PATCH',
      headers,
      body: { ...body, spec: { replicas: 7 } },
    })
    expect(status.json).toMatchObject({
      spec: { replicas: 4 },
      status: { replicas: 9 },
      metadata: { generation: 2 },
    })
    expect((await get(`${path}/scale`)).json).toMatchObject({
      kind: 'Scale',
      spec: { replicas: 4 },
      status: { selector: 'a=b' },
    })
    const apart = await send(cluster, `${path}/scale`, {
      method: 'PATCH',
      headers,
      body: { spec: { replicas: -1 } },
    })
    expect(apart.code).toBe(422)
    const version = String(cluster.api.store.revision)
    const scaled = await send(cluster, `${path}/scale`, {
      method: 'PUT',
      body: { metadata: { name: 'apart', resourceVersion: version }, spec: { replicas: 2 } },
    })
    expect(scaled.json).toMatchObject({ kind: 'Scale', spec: { replicas: 2 } })
  })

  test.each([
    [{ metadata: { name: 'other' }, spec: { replicas: 2 } }, 400],
    [
      {
        kind: 'Deployment',
        apiVersion: 'apps/v1',
        metadata: { name: 'sized' },
        spec: { replicas: 2 },
      },
      400,
    ],
    [{ metadata: { name: 'sized', resourceVersion: '1' }, spec: { replicas: 2 } }, 409],
    [{ metadata: { name: 'sized', uid: 'x' }, spec: { replicas: 2 } }, 409],
    [undefined, 400],
  ])('PUT of %j is no scale of a Deployment', async (body, code) => {
    const path = createDeployment('sized')
    expect(await send(cluster, `${path}/scale`, { method: 'PUT', body })).toMatchObject({ code })
    expect(cluster.api.read('deployments', 'default', 'sized').spec).toMatchObject({ replicas: 1 })
    cluster.api.delete('deployments', 'default', 'sized')
  })

  test('a PATCH of the scale is applied to the state at the end of the request', async () => {
    const path = createDeployment('slow')
    const type = { 'content-type': 'application/merge-patch+json', expect: '100-continue' }
    const headers = { authorization: `Bearer ${cluster.token}`, ...type }
    const call = request(`${cluster.url}${path}/scale`, {
      method: 'PATCH',
      ca: cluster.ca,
      headers,
    })
    call.flushHeaders()
    await once(call, 'continue')
    cluster.api.patch('deployments', 'default', 'slow', { metadata: { labels: { a: 'b' } } })
    call.end('{"spec":{"replicas":4}}')
    const [response] = await once(call, 'response')
    expect(response.statusCode).toBe(200)
    response.resume()
  })

  test('the last write of each client is recorded with its time', async () => {
    const write = async (manager: string, data: Record<string, string>) => {
      const headers = { 'content-type': 'application/merge-patch+json' }
      await send(cluster, `${maps}/map-4?fieldManager=${manager}`, {
        method: 'PATCH',
        headers,
        body: { data },
      })
    }
    await write('one', { a: '1' })
    await write('two', { b: '2' })
    await write('two', { b: '3' })
    await write('three', { b: '3' })
    cluster.api.patch('configmaps', 'default', 'map-4', { data: { c: '4' } })
    const { managedFields = [] } = cluster.api.get('configmaps', 'default', 'map-4')?.metadata ?? {}
    expect(managedFields.map(({ manager }) => manager)).toEqual(['one', 'two'])
    for (const { time } of managedFields) expect(Date.now() - Date.parse(time)).toBeLessThan(60_000)
  })

  test('an eviction deletes the Pod, unless its options ask for a dry run', async () => {
    cluster.api.create('pods', 'default', {
      metadata: { name: 'bound' },
      spec: { nodeName: 'worker', containers: [{ name: 'a', image: 'b' }] },
    })
    const body = { metadata: { name: 'bound' }, deleteOptions: { gracePeriodSeconds: 0 } }
    const path = '/api/v1/namespaces/default/pods/bound/eviction'
    const dryRun = { ...body, deleteOptions: { ...body.deleteOptions, dryRun: ['All'] } }
    expect(await send(cluster, path, { method: 'POST', body: dryRun })).toMatchObject({ code: 201 })
    expect(cluster.api.get('pods', 'default', 'bound')?.metadata.deletionTimestamp).toBeUndefined()
    expect(await send(cluster, path, { method: 'POST', body })).toMatchObject({ code: 201 })
    expect(cluster.api.get('pods', 'default', 'bound')).toBeUndefined()
  })

  test.each([
    [{ metadata: { name: 'other' } }],
    [{ kind: 'Pod', apiVersion: 'v1', metadata: { name: 'kept' } }],
    [{ metadata: { name: 'kept' }, deleteOptions: 5 }],
    [undefined],
  ])('POST of %j is no eviction of a Pod', async (body) => {
    cluster.createPod('kept')
    const path = '/api/v1/namespaces/default/pods/kept/eviction'
    expect(await send(cluster, path, { method: 'POST', body })).toMatchObject({ code: 400 })
    expect(cluster.api.read('pods', 'default', 'kept').metadata.deletionTimestamp).toBeUndefined()
    cluster.api.delete('pods', 'default', 'kept')
  })
})
