import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { featuresOf } from '../../dataplane/kube-proxy/versions.ts'
import { SyncLoop } from '../kube-proxy/sync-loop.ts'

beforeEach(() => vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

/**
 * Milliseconds at which a kube-proxy of this version syncs that is notified of a change every 100
 * ms for 2.5 s.
 */
async function syncsOf(version: string): Promise<number[]> {
  const began = Date.now()
  const at: number[] = []
  const loop = new SyncLoop({
    minIntervalMs: 1000,
    burst: featuresOf(version).syncBurst,
    maxIntervalMs: 3_600_000,
    retryMs: 30_000,
    sync: async () => void at.push(Date.now() - began),
    onError: () => {},
  })
  for (let change = 0; change < 25; change++) {
    loop.request()
    await vi.advanceTimersByTimeAsync(100)
  }
  await loop.stop()
  return at
}

test('up to 1.33 a second sync may follow immediately; from 1.34 on any two are minSyncPeriod apart', async () => {
  const gaps = (times: readonly number[]) =>
    times.slice(1).map((time, index) => time - (times[index] ?? 0))
  const [before, now] = [await syncsOf('v1.33'), await syncsOf('v1.34')]
  expect(before[0]).toBeLessThan(100)
  expect(gaps(before)[0]).toBeLessThan(200)
  expect(now[0]).toBeLessThan(100)
  expect(Math.min(...gaps(now))).toBeGreaterThanOrEqual(900)
  expect(now.length).toBeLessThan(before.length)
})

test('the loop is settled if no change is pending: after its sync, even if that failed, and when the loop has ended', async () => {
  const loop = new SyncLoop({
    minIntervalMs: 1000,
    burst: 1,
    maxIntervalMs: 3_600_000,
    retryMs: 30_000,
    sync: async () => Promise.reject(new Error('the kernel said no')),
    onError: () => {},
  })
  let settled = 0
  const ask = () => void loop.settled().then(() => settled++)
  ask()
  await vi.advanceTimersByTimeAsync(0)
  expect(settled, 'nothing was asked for').toBe(1)
  loop.request()
  ask()
  await vi.advanceTimersByTimeAsync(5)
  expect(settled, 'the change waits').toBe(1)
  await vi.advanceTimersByTimeAsync(100)
  expect(settled, 'it was tried').toBe(2)
  loop.request()
  ask()
  await vi.advanceTimersByTimeAsync(500)
  expect(settled, 'minSyncPeriod is not over').toBe(2)
  await loop.stop()
  await vi.advanceTimersByTimeAsync(0)
  expect(settled, 'no sync will follow').toBe(3)
})

test('changes in quick succession are one sync, and none waits longer than a maximum', async () => {
  const began = Date.now()
  const at: number[] = []
  const loop = new SyncLoop({
    minIntervalMs: 0,
    burst: 1,
    maxIntervalMs: 3_600_000,
    retryMs: 30_000,
    sync: async () => void at.push(Date.now() - began),
    onError: () => {},
  })
  for (let change = 0; change < 10; change++) {
    loop.request()
    await vi.advanceTimersByTimeAsync(15)
  }
  await vi.advanceTimersByTimeAsync(200)
  expect(at.length, 'twenty Services created one after the other').toBe(1)
  expect(at[0]).toBeLessThan(200)
  at.length = 0
  const second = Date.now() - began
  for (let change = 0; change < 60; change++) {
    loop.request()
    await vi.advanceTimersByTimeAsync(15)
  }
  expect(at[0], 'changes without an end').toBeLessThanOrEqual(second + 260)
  expect(at.length).toBeGreaterThanOrEqual(3)
  await loop.stop()
})
