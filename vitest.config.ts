import { join, resolve, sep } from 'node:path'
import { defineConfig, type TestProjectConfiguration } from 'vitest/config'

/** On two processors: with four they are idle for a sixth of the time, because many tests wait; with six each imports the same modules once more. */
const FILES_AT_ONCE = 5

/** Tests that boot a kernel, each its own. */
const booting = [
  'test/embedded',
  'embedded/test/kubelet',
  'embedded/test/kube-proxy',
  'test/guide/browser',
  'test/labs',
].map((folder) => `${folder}/**/*.test.ts`)

/** Tests that start programs: make, kubectl, the scripts themselves. They take most of the time that no kernel takes. */
const starting = [
  ...['scripts', 'host', 'cluster', 'instructors'].map((folder) => `test/${folder}/**/*.test.ts`),
  'test/{grading,dataplane}/**/{cli,vitest-face,expect-script,nft-kernel}.test.ts',
  'test/course/lint-course.test.ts',
  'test/slides/painted.test.ts',
  'embedded/test/apiserver/kubectl-*.test.ts',
]

/**
 * The text of lab 2 is typed in every run, by the guide's page; that of the others takes longer than all tests together. `TEXTS=all`
 * types them, too.
 */
const texts = process.env.TEXTS === 'all' ? [] : ['test/labs/lab-*-text.test.ts']

/** What needs a container engine has a configuration of its own: vitest.kind.config.ts. */
const engine = ['test/kind-e2e/**']

/**
 * `npx vitest run checks/02-ipvs.check.ts` grades a cluster; a run that names no check only tests, and never looks at a cluster that
 * somebody works with.
 */
const checks = join(import.meta.dirname, 'checks') + sep
const grades = process.argv
  .slice(2)
  .some((word) => word.endsWith('.check.ts') || `${resolve(word)}${sep}`.startsWith(checks))

/** One test for each step of a lab; labs share the cluster, so one after the other. */
const grading: TestProjectConfiguration = {
  test: {
    name: 'checks',
    include: ['checks/*.check.ts'],
    provide: { grades: true },
    globalSetup: 'grading/steps-as-tests.ts',
    fileParallelism: false,
    testTimeout: 0,
  },
}

const scale = Number(process.env.LAB_TIMEOUT_SCALE ?? 2)

export default defineConfig({
  test: {
    setupFiles: ['test/seed.ts'],
    // All of these guard against what hangs; a machine that others keep busy takes its time.
    env: { LAB_TIMEOUT_SCALE: String(scale) },
    testTimeout: 120_000 * scale,
    expect: { poll: { timeout: 15_000 * scale } },
    hookTimeout: 120_000 * scale,
    // They share what they import, which costs a second of each file's processor time otherwise; so a test that changes the
    // environment or a module's state restores it.
    maxWorkers: FILES_AT_ONCE,
    isolate: false,
    projects: grades
      ? [grading]
      : [
          {
            extends: true,
            test: {
              name: 'pure',
              include: ['test/**/*.test.ts', 'embedded/test/**/*.test.ts'],
              exclude: [...booting, ...starting, ...engine],
            },
          },
          {
            extends: true,
            test: { name: 'programs', include: starting, exclude: engine },
          },
          {
            extends: true,
            test: { name: 'kernel', include: booting, exclude: texts },
          },
        ],
  },
})
