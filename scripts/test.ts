// Runs all checks of continuous integration. `--fast` skips the tests that start programs or boot a
// kernel; other arguments are passed to vitest.
import { $ } from '../host/command.ts'
import { main } from '../host/main.ts'

await main(async () => {
  const args = process.argv.slice(2)
  const env = { ...process.env, ...(args.includes('--fast') ? { TESTS: 'fast' } : {}) }
  const run = $({ stdio: 'inherit', nothrow: true, verbose: false, env })
  // Each of these keeps one processor busy.
  const checks = await Promise.all([
    run`node_modules/.bin/biome check .`,
    run`node_modules/.bin/tsc --noEmit`,
    run`node_modules/.bin/tsc --noEmit --project guide/page`,
    run`node_modules/.bin/tsc --noEmit --project room/page`,
    run`node_modules/.bin/knip --no-progress`,
  ])
  if (checks.some(({ exitCode }) => exitCode !== 0)) return 1
  const tests = await run`node_modules/.bin/vitest run ${args.filter((word) => word !== '--fast')}`
  return tests.exitCode === 0 ? 0 : 1
})
