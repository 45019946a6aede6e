import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { which } from 'zx'
import { projectRoot } from '../../host/layout.ts'
import { processStartTime } from '../../host/live-process.ts'
import { shellWord } from '../../host/shell-word.ts'

test('a command is ended with its children, silently and without ps', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'command-'))
  for (const name of ['bash', 'sleep']) symlinkSync(await which(name), join(folder, name))
  const pids = join(folder, 'pids')
  const program = `
    import { existsSync, readFileSync } from 'node:fs'
    import { $ } from ${JSON.stringify(pathToFileURL(join(projectRoot, 'host/command.ts')).href)}
    import { waitFor } from ${JSON.stringify(pathToFileURL(join(projectRoot, 'host/wait.ts')).href)}
    const pids = ${JSON.stringify(pids)}
    const command = $({ nothrow: true, quiet: true })\`(sleep 1000 & echo $! $$ >\${pids}; wait)\`
    await waitFor('the command to start', 60_000, async () => existsSync(pids) && readFileSync(pids, 'utf8').endsWith('\\n'))
    await command.kill()
    console.log((await command).signal)`
  const args = ['--import', 'tsx', '--input-type=module', '-e', program]
  const { stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: projectRoot,
    env: { PATH: folder },
    encoding: 'utf8',
  })
  expect({ stdout, stderr }).toEqual({ stdout: 'SIGTERM\n', stderr: '' })
  const started = readFileSync(pids, 'utf8').trim().split(/\s+/).map(Number)
  expect(started).toHaveLength(2)
  await expect.poll(() => started.filter((pid) => processStartTime(pid) !== undefined)).toEqual([])
  rmSync(folder, { recursive: true })
})

test('sh reads each text as one word, unchanged', () => {
  // No argument holds a NUL byte; the other separates the answers.
  const text = fc
    .string({ unit: 'grapheme' })
    .filter((drawn) => !drawn.includes('\0') && !drawn.includes('\x1e'))
  const texts = [...fc.sample(text, 200), "'", "''\\'", '$(id) `id` $HOME "', 'a\nb', '', '-n', '*']
  const script = `for word in ${texts.map(shellWord).join(' ')}; do printf '%s\\036' "$word"; done`
  const output = execFileSync('sh', ['-c', script], { encoding: 'utf8' })
  expect(output.split('\x1e').slice(0, -1)).toEqual(texts)
})
