import { defineConfig } from 'vitest/config'

/** Tests that boot a kernel: one file at a time, because each has its own and they all share this machine's processors. */
const booting = ['embedded', 'kubelet', 'kube-proxy-embedded', 'labs'].map((folder) => `test/${folder}/**/*.test.ts`)

/** What needs a container engine has a configuration of its own: vitest.kind.config.ts. */
const engine = ['test/kind-e2e/**']

export default defineConfig({
  test: {
    testTimeout: 30_000,
    hookTimeout: 120_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'pure',
          include: ['test/**/*.test.ts'],
          exclude: [...booting, ...engine],
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: { name: 'kernel', include: booting, fileParallelism: false, sequence: { groupOrder: 1 } },
      },
    ],
  },
})
