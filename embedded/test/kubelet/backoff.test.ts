import { expect, test } from 'vitest'
import { goDuration, RestartBackoff } from '../../kubelet/container-worker.ts'

test('the first restart is immediate, then the delay doubles from ten seconds to five minutes', () => {
  const backoff = new RestartBackoff()
  let now = 1_000_000
  const waits = Array.from({ length: 9 }, () => {
    const wait = backoff.next(now)
    now += wait + 1000
    return wait / 1000
  })
  expect(waits).toEqual([0, 10, 20, 40, 80, 160, 300, 300, 300])
})

test('a container that ran for a long time restarts without a delay', () => {
  const backoff = new RestartBackoff()
  expect([backoff.next(1), backoff.next(2), backoff.next(3)]).toEqual([0, 10_000, 20_000])
  expect(backoff.next(3 + 40_000 + 600_001)).toBe(0)
})

test('delays are printed as Go prints durations', () => {
  expect([10_000, 40_000, 80_000, 300_000].map(goDuration)).toEqual(['10s', '40s', '1m20s', '5m0s'])
})
