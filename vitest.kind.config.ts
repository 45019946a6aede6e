import { defineConfig } from 'vitest/config'

/** What needs a container engine; `make e2e-kind` runs it, `make test` does not. */
export default defineConfig({
  test: {
    include: ['test/kind-e2e/**/*.test.ts'],
    fileParallelism: false,
    testTimeout: 300_000,
    hookTimeout: 600_000,
    bail: 0,
  },
})
