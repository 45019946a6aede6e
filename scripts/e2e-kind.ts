// Tests the labs on a genuine kind cluster, from `make up` to `make down`; skipped if no engine
// responds.

import { containerEngine, hasImage, registryHas } from '../cluster/kind/engine.ts'
import { nodeImage } from '../cluster/kind/images.ts'
import { $ } from '../host/command.ts'
import { ExitCode, main } from '../host/main.ts'

await main(async () => {
  const engine = await containerEngine()
  if (!engine) {
    console.log('Skipped: no Docker or Podman engine responds, which kind needs.')
    return ExitCode.passed
  }
  const image = await nodeImage(engine)
  if (!(await hasImage(engine, image)) && !(await registryHas(engine, image))) {
    console.log(
      `Skipped: ${engine} responds, but has no node image "${image}", and its registry does not respond.`,
    )
    return ExitCode.passed
  }
  const run = $({ stdio: 'inherit', nothrow: true, verbose: false })
  const args = [
    'run',
    '--config',
    'vitest.kind.config.ts',
    'test/kind-e2e',
    ...process.argv.slice(2),
  ]
  const { exitCode } = await run`node_modules/.bin/vitest ${args}`
  return exitCode === 0 ? ExitCode.passed : ExitCode.notYet
})
