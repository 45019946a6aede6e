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

test('a start that fails with damaged files, and again with new ones, names the folder to delete', async () => {
  provePackages.mockReturnValueOnce('"linux" has 3 bytes instead of 8')
  // Neither folder exists, so that the daemon fails with both.
  ensurePackages.mockImplementation(async () =>
    provePackages.mock.calls.length === 0 ? '/packages' : '/new-packages',
  )
  const refusal: Error = await new EmbeddedCluster('boot-fails').up(silent).then(
    () => expect.unreachable('it started'),
    (error) => error,
  )
  expect(provePackages.mock.calls).toEqual([['/packages']])
  expect(refusal.message).toMatch(/^"\/new-packages" does not exist/)
  expect(refusal.message).toContain(
    `It also failed with newly created files: delete the folder "${cacheFolder}", then run \`make up\`.`,
  )
})
