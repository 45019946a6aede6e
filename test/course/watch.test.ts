import { getEventListeners, once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { KubeConfig } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import type { KubeClient } from '../../cluster/driver.ts'
import { busyPauseMs, quietPauseMs, Watch, watchObjects } from '../../course/watch.ts'
import { waitFor } from '../../host/wait.ts'
import { madeCluster, PLAIN } from '../cluster/made-cluster.ts'

test('the pause between two reads grows while nothing happens, less far where started programs are not reported', () => {
  const minutes = 60_000
  for (const reports of [true, false]) {
    const pauses = [0, 2000, 8000, 16_000, minutes, 60 * minutes].map((quietMs) =>
      quietPauseMs(quietMs, reports),
    )
    expect(pauses).toEqual([
      200,
      1000,
      4000,
      reports ? 8000 : 5000,
      reports ? 20_000 : 5000,
      reports ? 20_000 : 5000,
    ])
  }
})

test('during activity a third of the time is for other work, and a change waits for two reads and a half at most', () => {
  expect([10, 700, 4000].map(busyPauseMs)).toEqual([200, 350, 2000])
})

test('a watch of the API that ends begins again, each time without one listener more', async () => {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(request.url ?? '')
    response.end(`${JSON.stringify({ type: 'ADDED', object: {} })}\n`)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const config = new KubeConfig()
  config.loadFromClusterAndUser(
    {
      name: 'one',
      server: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      skipTLSVerify: true,
    },
    { name: 'one' },
  )
  const cluster = madeCluster({
    client: async () => ({ config }) as Partial<KubeClient> as KubeClient,
  })
  const over = new AbortController()
  let signs = 0
  const watching = watchObjects(cluster, () => signs++, over.signal)
  await waitFor(
    'three rounds',
    30_000,
    async () => asked.filter((url) => url.includes('/services')).length === 3,
  )
  expect(signs).toBeGreaterThanOrEqual(asked.length - 5)
  // Those of the pauses come and go.
  expect(getEventListeners(over.signal, 'abort').length).toBeLessThanOrEqual(6)
  over.abort()
  await watching
  server.close()
})

test('a guide that ends leaves no request open that would keep its process for as long as no program is started', async () => {
  const asked: (AbortSignal | undefined)[] = []
  const cluster = madeCluster({
    capabilities: { ...PLAIN, sharedKernel: true },
    client: () => Promise.reject(new Error('not up')),
    nodes: async () => ['node'],
    script: (_node, _text, _timeoutMs, signal) => {
      asked.push(signal)
      return new Promise((_resolve, reject) => signal?.addEventListener('abort', reject))
    },
  })
  const watch = new Watch(cluster, async () => 'unchanged')
  watch.setWatched(true)
  const running = watch.run()
  await waitFor('the wait for a program', 10_000, async () => asked.length > 0)
  watch.end()
  await running
  expect(asked.map((signal) => signal?.aborted)).toEqual([true])
})
