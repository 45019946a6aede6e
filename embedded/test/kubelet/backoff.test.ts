import { expect, test } from 'vitest'
import { goDuration, restartDelayMs } from '../../kubelet/container-worker.ts'

test('the first restart is immediate, then the delay doubles from ten seconds to five minutes', () => {
  const waits = Array.from({ length: 9 }, (_, ends) => restartDelayMs(ends, 1000) / 1000)
  expect(waits).toEqual([0, 10, 20, 40, 80, 160, 300, 300, 300])
})

test('a container that ran for a long time restarts without a delay', () => {
  expect([restartDelayMs(5, 600_000), restartDelayMs(5, 600_001)]).toEqual([160_000, 0])
})

test('delays are printed as Go prints durations', () => {
  expect([10_000, 40_000, 80_000, 300_000].map(goDuration)).toEqual(['10s', '40s', '1m20s', '5m0s'])
})
