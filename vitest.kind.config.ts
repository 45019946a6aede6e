import { defineConfig } from 'vitest/config'
import { timeoutScale } from './host/wait.ts'

/**
 * What `make test` does not run: what needs a container engine (`make e2e-kind`), and the offline
 * archive (`make test-bundle`).
 */
export default defineConfig({
  test: {
    include: ['test/{kind-e2e,offline}/**/*.test.ts'],
    fileParallelism: false,
    testTimeout: 300_000 * timeoutScale(),
    hookTimeout: 600_000 * timeoutScale(),
    bail: 0,
  },
})
