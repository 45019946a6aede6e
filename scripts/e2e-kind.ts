// The labs on a genuine kind cluster, from `make up` to `make down`; where no engine answers, it says so and is done.

import { containerEngine, hasImage, registryHas } from '../cluster/kind/engine.ts'
import { nodeImage } from '../cluster/kind/node-image.ts'
import { $ } from '../host/command.ts'
import { ExitCode, main } from '../host/main.ts'

await main(async () => {
  const engine = await containerEngine()
  if (!engine) {
    console.log('Skipped: no Docker or Podman engine answers, so there is nothing to run kind on.')
    return ExitCode.passed
  }
  const image = await nodeImage(engine)
  if (!(await hasImage(engine, image)) && !(await registryHas(engine, image))) {
    console.log(`Skipped: ${engine} answers, but has no node image "${image}", and its registry does not answer.`)
    return ExitCode.passed
  }
  const run = $({ stdio: 'inherit', nothrow: true, verbose: false })
  const words = ['run', '--config', 'vitest.kind.config.ts', ...process.argv.slice(2)]
  const { exitCode } = await run`node_modules/.bin/vitest ${words}`
  return exitCode === 0 ? ExitCode.passed : ExitCode.notYet
})
