import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { EmbeddedCluster } from '../../cluster/embedded.ts'
import { cacheFolder } from '../../host/layout.ts'

const { ensurePackages, provePackages } = vi.hoisted(() => ({ ensurePackages: vi.fn(), provePackages: vi.fn() }))
vi.mock('../../embedded/index.ts', async (original) => ({
  ...(await original<typeof import('../../embedded/index.ts')>()),
  ensurePackages,
  provePackages,
}))

const silent = { start: () => undefined, end: () => undefined, note: () => undefined }

beforeAll(() => {
  vi.stubEnv('KERNEL', 'uml')
})

afterAll(() => {
  vi.unstubAllEnvs()
})

test('a kernel that fails with damaged files, and again with new ones, names the folder to delete', async () => {
  ensurePackages.mockResolvedValue('/packages')
  provePackages.mockReturnValueOnce('"linux" has 3 bytes instead of 8').mockReturnValue(undefined)
  const cluster = new EmbeddedCluster('boot-fails')
  let boots = 0
  Object.defineProperty(cluster, 'startDaemon', {
    value: async () => {
      boots += 1
      throw new Error('The embedded cluster ended while it started (1): Kernel panic.')
    },
  })
  await expect(cluster.up(silent)).rejects.toThrow(
    `Kernel panic. It also failed with newly created files: delete the folder "${cacheFolder}", then run \`make up\`.`,
  )
  expect(boots).toBe(2)
})
