// scripts/install.sh, which `make` runs before everything else, with an npm that fails in the ways
// npm does.

import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { projectRoot } from '../../host/layout.ts'
import { waitFor } from '../../host/wait.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'install-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/**
 * What `make` prints and how it ends when the Node packages are to be installed by an npm that runs
 * this shell text.
 */
function install(npm: string, seconds = 600) {
  writeFileSync(join(folder, 'npm'), `#!/bin/sh\n${npm}\n`)
  chmodSync(join(folder, 'npm'), 0o755)
  const env = {
    ...process.env,
    PATH: `${folder}:${process.env.PATH}`,
    INSTALL_SECONDS: String(seconds),
  }
  const { status, stderr } = spawnSync('sh', ['scripts/install.sh'], {
    cwd: projectRoot,
    env,
    encoding: 'utf8',
  })
  return { status, lines: stderr.trimEnd().split('\n') }
}

test('the Makefile installs with it', () => {
  const { stdout } = spawnSync('make', ['--dry-run', '--always-make', 'help', 'up'], {
    cwd: projectRoot,
    encoding: 'utf8',
  })
  expect(stdout).toContain('sh scripts/install.sh && touch node_modules/.package-lock.json')
})

test('npm succeeds', () => {
  expect(install('[ "$1" = ci ]')).toEqual({
    status: 0,
    lines: [' • Installing the Node packages …'],
  })
})

test('a full disk is a sentence that names the folder', () => {
  const { status, lines } = install(
    "echo 'npm error code ENOSPC\nnpm error path /srv/labs/node_modules/a' >&2; exit 228",
  )
  expect(status).toBe(2)
  expect(lines.at(-1)).toMatch(
    /^ ✗ No space is left for "\/srv\/labs\/node_modules\/a": .* run the command again\.$/,
  )
})

test('an npm that does not end is killed at its deadline', async () => {
  const { status, lines } = install(`echo $$ >${folder}/pid; exec sleep 77`, 2)
  expect(status).toBe(2)
  expect(lines.at(-1)).toMatch(/^ ✗ "npm ci" has not ended in 2 s: .* run the command again\.$/)
  const pid = readFileSync(join(folder, 'pid'), 'utf8').trim()
  await waitFor('npm to be gone', 10_000, async () => !existsSync(`/proc/${pid}`))
})

test('a silent npm is reported, every 15 s of the usual 600', () => {
  const { status, lines } = install('exec sleep 3', 80)
  expect(status).toBe(0)
  expect(lines).toContain(' • Still installing the Node packages, 2 s …')
  expect(lines).not.toContain(' • Still installing the Node packages, 1 s …')
})

test('another failure shows the output of npm and the next command', () => {
  const { status, lines } = install("echo 'npm error code E403' >&2; exit 1")
  expect(status).toBe(2)
  expect(lines).toContain('npm error code E403')
  expect(lines.at(-1)).toMatch(/^ ✗ "npm ci" failed: .* run the command again\.$/)
})
