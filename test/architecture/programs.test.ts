// Programs for nodes, Pods and containers are files: shellcheck and perl read each of them.

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { which } from 'zx/core'
import { unpackPackages } from '../../embedded/index.ts'
import { cacheFolder, projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'

const tracked = (...patterns: string[]): string[] =>
  spawnSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', ...patterns], {
    cwd: projectRoot,
    encoding: 'utf8',
  })
    .stdout.split('\n')
    .filter((file) => file !== '')

/** shellcheck of this machine, else Debian's, unpacked into the cache. */
async function shellcheck(): Promise<string> {
  const installed = await which('shellcheck', { nothrow: true })
  if (installed) return installed
  const packages = ['shellcheck']
  const options = { cache: cacheFolder, name: 'shellcheck', packages, closure: 'missing' } as const
  return join(await unpackPackages(options, silent), 'usr/bin/shellcheck')
}

/**
 * Variables that a library sets for its caller or gets from it; a sourced file that is not there;
 * words that must be split; `local`, which every shell of a node has. The rest is an error.
 */
const EXCLUDED = ['SC2034', 'SC2154', 'SC1091', 'SC2148']

/** Programs that are written for one machine, from folders and addresses known only then. */
const GENERATED: Record<string, string> = {
  'embedded/machine/host-kernel.ts': 'mounts of the folders that this system has',
  'embedded/machine/offline.ts': 'the loader and libraries of the archive',
  'embedded/machine/uml-kernel.ts': 'two lines that start the first program',
  'embedded/network/topology.ts': 'addresses and routes of the network',
}

test('shellcheck finds nothing in the shell programs', async () => {
  const files = tracked('*.sh')
  expect(files.length).toBeGreaterThan(15)
  const { status, stdout, stderr } = spawnSync(
    await shellcheck(),
    [
      '--shell=dash',
      `--exclude=${EXCLUDED.join()}`,
      '--severity=warning',
      '--format=gcc',
      ...files,
    ],
    { cwd: projectRoot, encoding: 'utf8' },
  )
  expect(`${stdout}${stderr}`).toBe('')
  expect(status).toBe(0)
})

test.each(tracked('*.pl'))('%s compiles', (file) => {
  const { status, stderr } = spawnSync('perl', ['-c', join(projectRoot, file)], {
    encoding: 'utf8',
  })
  expect(stderr).toContain('syntax OK')
  expect(status).toBe(0)
})

test('no program for a node is in a string of the product', () => {
  const sources = tracked('*.ts', ':!test', ':!embedded/test', ':!slides/build')
  const isProgram = /`(?:#!\/|set -e\b|use strict|[^`]*\n(?:while|for|if) .*(?:; do|; then)\n)/
  const found = sources.filter((file) =>
    isProgram.test(readFileSync(join(projectRoot, file), 'utf8')),
  )
  expect(found.filter((file) => !(file in GENERATED))).toEqual([])
})
