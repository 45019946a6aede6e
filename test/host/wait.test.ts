import { afterEach, expect, test, vi } from 'vitest'
import { scaledMs, waitFor } from '../../host/wait.ts'

afterEach(() => void vi.unstubAllEnvs())

test('a deadline that LAB_TIMEOUT_SCALE changes is named as it was', async () => {
  vi.stubEnv('LAB_TIMEOUT_SCALE', '0.001')
  await expect(waitFor('nothing', 600_000, async () => false)).rejects.toThrow(
    /^Waited 1 s for nothing without/,
  )
})

test('a deadline is a whole number of milliseconds, whatever the scale: no timer takes another', () => {
  for (const scale of ['1.1', '2.2', '0.7', '0.18123', '3']) {
    vi.stubEnv('LAB_TIMEOUT_SCALE', scale)
    const deadline = scaledMs(180_000)
    expect(() => AbortSignal.timeout(deadline)).not.toThrow()
    expect(deadline).toBeCloseTo(180_000 * Number(scale), -1)
  }
  // A longer timer would fire at once.
  vi.stubEnv('LAB_TIMEOUT_SCALE', '20000')
  expect(scaledMs(180_000)).toBe(2 ** 31 - 1)
})
