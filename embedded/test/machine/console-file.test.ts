import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { recordConsole } from '../../machine/console-file.ts'
import { consoleTail, describeKernelEnd } from '../../machine/kernel-process.ts'
import { memoryShortage } from '../../machine/memory-watch.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'console-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

test('a console is recorded as it was printed', async () => {
  const file = join(folder, 'console.log')
  await recordConsole(Readable.from([Buffer.from('booting\n'), Buffer.from('ready\n')]), file)
  expect(readFileSync(file, 'utf8')).toBe('booting\nready\n')
})

test('a flood on the console fills no disk, and the reason of the end behind it is kept', async () => {
  const file = join(folder, 'console.log')
  const flood = function* () {
    for (let count = 0; count < 300; count++) yield Buffer.alloc(64 * 1024, 'y')
    yield Buffer.from('\nKernel panic - not syncing: Attempted to kill init!\n')
  }
  await recordConsole(Readable.from(flood()), file)
  expect(statSync(file).size).toBeLessThan(1.2e6)
  expect(readFileSync(file, 'utf8')).toMatch(/\n\[\d+ bytes were left out\]\n/)
  expect(describeKernelEnd(consoleTail(file))).toContain('Kernel panic')
})

test.each([
  ['much is available', 'MemTotal: 16000000 kB\nMemAvailable: 9000000 kB\n', undefined],
  [
    'little is left',
    'MemTotal: 16000000 kB\nMemAvailable: 300000 kB\n',
    /only 292 MB of memory left/,
  ],
  ['the machine is small', 'MemTotal: 1000000 kB\nMemAvailable: 300000 kB\n', undefined],
  ['the machine is small and full', 'MemTotal: 1000000 kB\nMemAvailable: 50000 kB\n', /only 48 MB/],
  ['the kernel reports nothing', '', undefined],
])('a guest that shares the memory of its machine is judged where %s', (_what, meminfo, reason) => {
  if (reason === undefined) expect(memoryShortage(meminfo)).toBeUndefined()
  else expect(memoryShortage(meminfo)).toMatch(reason)
})
