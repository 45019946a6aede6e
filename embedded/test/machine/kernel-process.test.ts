import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { $ } from '../../../host/command.ts'
import { CONFINE } from '../../machine/confinement.ts'
import { machineOn } from '../../machine/guest-machine.ts'
import { SHIM } from '../../machine/kernel-package.ts'
import { bootKernel } from '../../machine/kernel-process.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'silent-kernel-'))
  // The boot deadline of 60 s becomes one of 1 s.
  vi.stubEnv('LAB_TIMEOUT_SCALE', String(1 / 60))
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(directory, { recursive: true, force: true })
})

/**
 * A kernel that boots and never answers; a script is in the place of the program that confines it.
 */
async function silentKernel() {
  const packages = join(directory, 'packages')
  for (const file of [CONFINE, SHIM]) mkdirSync(dirname(join(packages, file)), { recursive: true })
  writeFileSync(join(packages, CONFINE), '#!/bin/sh\necho booting\nexec sleep 600\n', {
    mode: 0o755,
  })
  const confinement = { files: undefined, signals: undefined, systemCalls: false }
  return bootKernel({
    packages,
    directory: join(directory, 'uml'),
    name: 'silent',
    confinement,
    memoryMegabytes: 16,
  })
}

const session = async (leader: number) =>
  (await $({ quiet: true, nothrow: true })`ps --sid ${leader} -o args=`).stdout.trim()

const befalls = [
  { what: 'nothing else', befall: () => {} },
  { what: 'its folder was removed', befall: () => rmSync(directory, { recursive: true }) },
  {
    what: 'all its processes were stopped',
    befall: (leader: number) => process.kill(-leader, 'SIGSTOP'),
  },
  {
    what: 'only its supervisor was stopped',
    befall: (leader: number) => process.kill(leader, 'SIGSTOP'),
  },
]

test.each(befalls)(
  'a kernel that never answers is ended at its deadline: $what',
  { timeout: 15_000 },
  async ({ befall }) => {
    const kernel = await silentKernel()
    const leader = Number(kernel.process.pid)
    await expect.poll(() => readFileSync(kernel.consoleFile, 'utf8')).toBe('booting\n')
    befall(leader)
    await expect(machineOn(kernel)).rejects.toThrow(
      'The embedded kernel did not start: it did not answer in time.',
    )
    await expect.poll(() => session(leader)).toBe('')
  },
)
