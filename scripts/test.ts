import { $ } from 'zx/core'
import { main } from '../host/main.ts'

await main(async () => {
  const run = $({ stdio: 'inherit', nothrow: true, verbose: false })
  for (const command of [
    ['biome', 'check', '.'],
    ['tsc', '--noEmit'],
    ['knip', '--no-progress'],
    ['vitest', 'run', ...process.argv.slice(2)],
  ]) {
    const [tool = '', ...rest] = command
    const { exitCode } = await run`node_modules/.bin/${tool} ${rest}`
    if (exitCode !== 0) return 1
  }
  return 0
})
