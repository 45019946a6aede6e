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

async function run(script: string) {
  const { exitCode: code, stdout, stderr } = await shell.run(script)
  return { stdout: stdout.toString(), stderr: stderr.toString(), code, alive: shell.alive }
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

test('large outputs are complete, and a script that ends its shell returns its output and exit code', async () => {
  const { stdout, stderr } = await run('seq 100000; seq 50000 >&2')
  expect([stdout.length, stderr.length]).toEqual([588_895, 288_894])
  expect(await run('echo before; kill -9 $$')).toMatchObject({
    stdout: 'before\n',
    code: 137,
    alive: false,
  })
})
