// Runs all checks of continuous integration. `--fast` skips the tests that start programs or boot a kernel; other arguments
// are passed to vitest.
import { $ } from '../host/command.ts'
import { main } from '../host/main.ts'

await main(async () => {
  const words = process.argv.slice(2)
  const env = { ...process.env, ...(words.includes('--fast') ? { TESTS: 'fast' } : {}) }
  const run = $({ stdio: 'inherit', nothrow: true, verbose: false, env })
  for (const [tool = '', ...rest] of [
    ['biome', 'check', '.'],
    ['tsc', '--noEmit'],
    ['tsc', '--noEmit', '--project', 'guide/page'],
    ['knip', '--no-progress'],
    ['vitest', 'run', ...words.filter((word) => word !== '--fast')],
  ]) {
    const { exitCode } = await run`node_modules/.bin/${tool} ${rest}`
    if (exitCode !== 0) return 1
  }
  return 0
})
