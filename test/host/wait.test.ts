import { afterEach, expect, test, vi } from 'vitest'
import { waitFor } from '../../host/wait.ts'

afterEach(() => void vi.unstubAllEnvs())

test('a deadline that LAB_TIMEOUT_SCALE changes is named as it was', async () => {
  vi.stubEnv('LAB_TIMEOUT_SCALE', '0.001')
  await expect(waitFor('nothing', 600_000, async () => false)).rejects.toThrow(
    /^Waited 1 s for nothing without/,
  )
})
