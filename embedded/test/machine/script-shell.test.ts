import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { FifoPool } from '../../machine/fifo-pool.ts'
import { ScriptShell } from '../../machine/script-shell.ts'

let folder: string
let shell: ScriptShell

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'script-shell-'))
  shell = new ScriptShell(['sh'], { PATH: process.env.PATH }, new FifoPool(folder))
})

afterEach(() => {
  shell.kill('SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

function run(script: string): Promise<{ stdout: string; stderr: string; code: number; alive: boolean }> {
  let [stdout, stderr] = ['', '']
  return new Promise((resolve) =>
    shell.run(script, {
      stdout: (bytes) => {
        stdout += bytes
      },
      stderr: (bytes) => {
        stderr += bytes
      },
      exit: (code) => resolve({ stdout, stderr, code, alive: shell.alive }),
    }),
  )
}

test.each([
  ['a variable', 'left=1', 'echo "[$left]"', '[]\n'],
  ['a function', 'left() { :; }', 'command -v left || echo none', 'none\n'],
  ['the folder', 'cd /tmp', 'pwd', '/\n'],
  ['an option', 'set -e', 'false; echo on', 'on\n'],
])('%s of one script does not reach the next', async (_, first, second, expected) => {
  await run(first)
  expect(await run(second)).toEqual({ stdout: expected, stderr: '', code: 0, alive: true })
})

test('the shell goes on after a script that exits', async () => {
  expect(await run('echo out; echo err >&2; exit 7')).toEqual({
    stdout: 'out\n',
    stderr: 'err\n',
    code: 7,
    alive: true,
  })
  expect(await run('echo again')).toMatchObject({ stdout: 'again\n', code: 0 })
})

test('a script has nothing to read', async () => {
  expect(await run('cat')).toEqual({ stdout: '', stderr: '', code: 0, alive: true })
})
