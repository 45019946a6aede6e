import { join, resolve, sep } from 'node:path'
import { defineConfig, type ViteUserConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * On two processors: with more, kernels slow each other down until deadlines end them; with fewer
 * they are idle, because many tests wait.
 */
const FILES_AT_ONCE = 4

/** Folders of tests that boot a kernel, each its own. */
const booting = [
  'test/embedded',
  'embedded/test/kubelet',
  'embedded/test/kube-proxy',
  'test/guide/browser',
  'test/room/browser',
  'test/labs',
]

/**
 * Tests that start programs: make, kubectl, the scripts themselves. They take most of the time that
 * no kernel takes.
 */
const starting = [
  ...['scripts', 'host', 'cluster', 'instructors'].map((folder) => `test/${folder}/**/*.test.ts`),
  'test/{grading,dataplane}/**/{cli,vitest-face,expect-script,nft-kernel}.test.ts',
  'test/course/lint-course.test.ts',
  'test/slides/painted.test.ts',
  'embedded/test/apiserver/kubectl-*.test.ts',
]

/**
 * What plays labs as learners do, for minutes each: `make test-lab LAB=3`. The text of lab 2 is in
 * every run: test/labs/guide.test.ts.
 */
const playing = ['test/labs/lab-*.test.ts', 'test/labs/thoughtless.test.ts']

/**
 * What else takes minutes on a kernel: `make test-long`. Continuous integration plays the labs and
 * runs these beside `make test`.
 */
const long = [
  'test/{guide,room}/browser/*.test.ts',
  'test/embedded/{kernel-end,leaving-ipvs,migration,stopped-clients,together}.test.ts',
  'embedded/test/kube-proxy/{cleanup,trace-kernel,userspace}.test.ts',
]

/**
 * `make test-fast` sets TESTS=fast, `make test-long` TESTS=long. TEXTS=all is the older name of
 * TESTS=all.
 */
const { TEXTS, TESTS = TEXTS } = process.env
/** A file that a command names runs. */
const namesFiles = process.argv.slice(2).some((word) => word.endsWith('.test.ts'))

/**
 * Left out. What needs a container engine or the offline archive has a configuration of its own,
 * vitest.kind.config.ts.
 */
const left = [
  'test/{kind-e2e,offline}/**',
  ...(TESTS === 'all' || TESTS === 'long' || namesFiles ? [] : [...playing, ...long]),
  ...(TESTS === 'fast' ? [...starting, ...booting.map((folder) => `${folder}/**`)] : []),
]

/** What takes longest begins first: kernels before all others, and of both the largest files. */
class KernelsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const boots = ({ moduleId }: TestSpecification) =>
      booting.some((folder) => moduleId.startsWith(join(import.meta.dirname, folder) + sep))
    return [...sorted.filter(boots), ...sorted.filter((file) => !boots(file))]
  }
}

/**
 * `npx vitest run checks/02-ipvs.check.ts` grades a cluster; a run that names no check only tests,
 * and never looks at a cluster that a user works with.
 */
const checks = join(import.meta.dirname, 'checks') + sep
const grades = process.argv
  .slice(2)
  .some((word) => word.endsWith('.check.ts') || `${resolve(word)}${sep}`.startsWith(checks))

/** One test for each step of a lab; labs share the cluster, so one after the other. */
const grading: ViteUserConfig['test'] = {
  name: 'checks',
  include: ['checks/*.check.ts'],
  provide: { grades: true },
  globalSetup: 'grading/steps-as-tests.ts',
  fileParallelism: false,
  testTimeout: 0,
}

const testing: ViteUserConfig['test'] = {
  include: TESTS === 'long' ? long : ['test/**/*.test.ts', 'embedded/test/**/*.test.ts'],
  exclude: left,
  maxWorkers: FILES_AT_ONCE,
  // Files share what they import, which costs a second of each one's processor time otherwise; so a
  // test that changes the environment or a module's state restores it.
  isolate: false,
  sequence: { sequencer: KernelsFirst },
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
    ...(grades ? grading : testing),
  },
})
