import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { projectRoot } from '../../host/layout.ts'

let folder: string

/** Runs a program in the small repository. */
function run(program: string, args: string[], env: Record<string, string> = {}) {
  return spawnSync(program, args, {
    cwd: folder,
    encoding: 'utf8',
    env: { PATH: process.env.PATH, HOME: folder, ...env },
  })
}
const git = (...args: string[]) =>
  run('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.org', ...args])
const tsx = import.meta.resolve('tsx')
const release = (version: string) =>
  run(process.execPath, ['--import', tsx, join(projectRoot, 'scripts/release.ts')], {
    VERSION: version,
  })
const inRelease = (file: string) => join(folder, 'dist/release-1.2.3', file)

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'release-'))
  const about = { name: 'small', version: '1.2.3' }
  const files = {
    'package.json': JSON.stringify({ ...about, private: true }),
    'package-lock.json': JSON.stringify({ ...about, lockfileVersion: 3, packages: { '': about } }),
    'CHANGELOG.md': '# Changelog\n\n## 1.2.3\n\n- New.\n\n## 1.2.2\n\n- Old.\n',
    '.gitignore': 'dist/\n',
  }
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text)
  git('init', '--quiet')
  git('add', '.')
  expect(git('commit', '--quiet', '-m', 'All')).toMatchObject({ status: 0 })
})
afterEach(() => rmSync(folder, { recursive: true }))

test('a release has the sources of the commit, an SBOM, the text of its tag and checksums of all', () => {
  const { status, stdout, stderr } = release('1.2.3')
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(readFileSync(inRelease('tag.txt'), 'utf8')).toBe('small 1.2.3\n\n- New.\n')
  const sources = run('tar', ['-tzf', inRelease('small-1.2.3.tar.gz')]).stdout
  expect(sources.split('\n')).toContain('small-1.2.3/package.json')
  const sbom = JSON.parse(readFileSync(inRelease('small-1.2.3.spdx.json'), 'utf8'))
  expect(sbom).toMatchObject({ spdxVersion: 'SPDX-2.3', name: 'small@1.2.3' })
  const sums = readFileSync(inRelease('SHA256SUMS'), 'utf8')
  expect(sums.trim().split('\n')).toHaveLength(3)
  const check = spawnSync('sha256sum', ['--check', '--strict', 'SHA256SUMS'], {
    cwd: inRelease('.'),
  })
  expect(check.status).toBe(0)
  // It tags nothing; the command that it prints does.
  expect(git('tag').stdout).toBe('')
  const command = stdout.split('\n').find((line) => line.includes('git tag')) ?? ''
  expect(git(...command.trim().split(' ').slice(1))).toMatchObject({ status: 0 })
  expect(git('tag', '--list', '--format=%(contents)').stdout.trim()).toBe('small 1.2.3\n\n- New.')
  expect(release('1.2.3').stderr).toContain('The tag "v1.2.3" exists already')
})

test('all that is against a release is told at once, and nothing is written', () => {
  writeFileSync(join(folder, 'new'), '')
  const { status, stderr } = release('1.3.0')
  expect(status).toBe(2)
  expect(stderr.trimEnd().split('\n')).toEqual([
    expect.stringContaining('The tree has uncommitted changes, the first of them "?? new"'),
    expect.stringContaining('package.json has the version "1.2.3", not "1.3.0"'),
    expect.stringContaining('package-lock.json has the version "1.2.3", not "1.3.0"'),
    expect.stringContaining('CHANGELOG.md has no text below "## 1.3.0"'),
  ])
  expect(existsSync(join(folder, 'dist'))).toBe(false)
})

test('what is not a version is refused as text', () => {
  const { status, stderr } = release('../1; touch canary')
  expect(status).toBe(2)
  expect(stderr).toContain('VERSION="../1; touch canary" is not a version')
  expect(stderr).not.toContain('package.json')
  expect(existsSync(join(folder, 'dist'))).toBe(false)
})
