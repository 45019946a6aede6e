// Runs all checks of continuous integration. `--fast` skips the tests that start programs or boot a kernel; other arguments
// are passed to vitest.
import { $ } from '../host/command.ts'
import { main } from '../host/main.ts'

await main(async () => {
  const run = $({ stdio: 'inherit', nothrow: true, verbose: false })
  const words = process.argv.slice(2)
  const fast = words.includes('--fast')
  const chosen = fast ? ['--project', 'pure', ...words.filter((word) => word !== '--fast')] : words
  for (const [tool = '', ...rest] of [
    ['biome', 'check', '.'],
    ['tsc', '--noEmit'],
    ['tsc', '--noEmit', '--project', 'guide/page'],
    ['knip', '--no-progress'],
    ['vitest', 'run', ...chosen],
  ]) {
    const { exitCode } = await run`node_modules/.bin/${tool} ${rest}`
    if (exitCode !== 0) return 1
  }
  return 0
})
