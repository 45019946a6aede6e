import { defineConfig } from 'vitest/config'
import { timeoutScale } from './host/wait.ts'

/** What needs a container engine; `make e2e-kind` runs it, `make test` does not. */
export default defineConfig({
  test: {
    include: ['test/kind-e2e/**/*.test.ts'],
    fileParallelism: false,
    testTimeout: 300_000 * timeoutScale(),
    hookTimeout: 600_000 * timeoutScale(),
    bail: 0,
  },
})
