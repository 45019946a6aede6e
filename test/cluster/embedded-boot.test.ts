import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import type { EmbeddedCluster as Driver } from '../../cluster/embedded.ts'
import { cacheFolder } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'

const product = '../../embedded/index.ts'
const [ensurePackages, provePackages] = [vi.fn(), vi.fn()]
let EmbeddedCluster: typeof Driver

beforeAll(async () => {
  vi.stubEnv('KERNEL', 'uml')
  // Other tests of this process have imported the real ones.
  vi.resetModules()
  vi.doMock(product, async (original) => ({
    ...(await original<object>()),
    ensurePackages,
    provePackages,
  }))
  EmbeddedCluster = (await import('../../cluster/embedded.ts')).EmbeddedCluster
})

afterAll(() => {
  vi.unstubAllEnvs()
  vi.doUnmock(product)
  vi.resetModules()
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
