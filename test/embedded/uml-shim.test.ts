import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { $ } from 'zx'
import { ensurePackages, startMachine } from '../../embedded/index.ts'
import { cacheFolder, projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'

const source = join(projectRoot, 'test/embedded/registers.c')

test('processes of the guest keep their floating-point registers in system calls, page faults, signals and beside each other', async () => {
  const directory = mkdtempSync(join(cacheFolder, 'registers-'))
  const packages = await ensurePackages(cacheFolder, silent)
  const program = join(directory, 'registers')
  await $`${packages}/usr/bin/tcc -nostdlib -static -o ${program} ${source}`
  await $`${program}`
  const machine = await startMachine({
    packages,
    directory,
    name: `registers-${process.pid}`,
    memoryMegabytes: 512,
  })
  try {
    const runs = Array.from({ length: 3 }, () => machine.run([program]))
    expect((await Promise.all(runs)).map(({ exitCode }) => exitCode)).toEqual([0, 0, 0])
  } finally {
    await machine.stop()
    rmSync(directory, { recursive: true, force: true })
  }
})
