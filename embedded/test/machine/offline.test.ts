import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { projectRoot } from '../../../host/layout.ts'
import { ownFiles } from '../../machine/confinement.ts'
import { LIBRARIES } from '../../machine/kernel-package.ts'
import { makeStarters } from '../../machine/offline.ts'
import { requireSupport } from '../../machine/packages.ts'

let folder: string
let offline: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'off line-'))
  offline = join(folder, '.offline')
  const root = join(offline, 'root')
  for (const name of ['usr/bin', 'usr/sbin', LIBRARIES])
    mkdirSync(join(root, name), { recursive: true })
  const put = (from: string, to: string, mode = 0o755) => {
    copyFileSync(from, join(root, to))
    chmodSync(join(root, to), mode)
  }
  const [node = '', ...libraries] = ownFiles()
  put(node, 'usr/bin/node')
  for (const file of libraries.filter((name) => /\.so[.\d]*$/.test(name)))
    put(file, join(LIBRARIES, basename(file).replace(/(\.so\.\d+)\..*/, '$1')))
  writeFileSync(join(root, 'usr/bin/script'), '#!/bin/sh\n', { mode: 0o755 })
  writeFileSync(join(root, 'usr/sbin/static'), '\x7fELF and no loader', { mode: 0o755 })
  copyFileSync(node, join(root, 'usr/bin/perl'))
  makeStarters(offline)
})
afterAll(() => rmSync(folder, { recursive: true }))

afterEach(() => vi.unstubAllEnvs())

test('a Linux without apt is referred to the offline archive', async () => {
  vi.stubEnv('PATH', folder)
  await expect(requireSupport()).rejects.toThrow(
    /"apt-get" is not installed: use the offline archive.*`make bundle`[^.]*\.$/,
  )
})

const nodeRuns = (text: string, env: Record<string, string> = {}) =>
  execFileSync(join(offline, 'bin/node'), ['-e', text], { encoding: 'utf8', env }).trim()

test('a program of the archive uses only the libraries of the archive', () => {
  const mapped = nodeRuns(`console.log(fs.readFileSync('/proc/self/maps', 'utf8'))`)
  const files = [...mapped.matchAll(/ (\/\S.*)$/gm)].map(([, path]) => path)
  expect(files.length).toBeGreaterThan(3)
  expect(files.filter((path) => !path?.startsWith(`${offline}/root/`))).toEqual([])
})

test('Node.js starts itself in processes and threads by the path of its starter', () => {
  const tell = 'console.log(process.execPath)'
  const inThread = `new (require('node:worker_threads').Worker)(${JSON.stringify(tell)}, { eval: true })`
  const inChild = `console.log(require('node:child_process').execFileSync(process.execPath, ['-e', ${JSON.stringify(tell)}]) + '')`
  for (const text of [tell, inThread, inChild])
    expect(nodeRuns(text)).toBe(join(offline, 'bin/node'))
})

test('without a temporary folder, Node.js uses one beside the programs', () => {
  expect(
    nodeRuns('console.log(fs.statSync(os.tmpdir()).isDirectory())', {
      TMPDIR: join(folder, 'none'),
    }),
  ).toBe('true')
})

test('scripts and perl, which would use files of the host, have no starter; a static program is linked', () => {
  expect(
    ['script', 'perl', 'static'].map((name) => existsSync(join(offline, 'bin', name))),
  ).toEqual([false, false, true])
  expect(readFileSync(join(offline, 'bin/static'), 'latin1')).toMatch(/^\x7fELF/)
})

// biome-ignore lint/suspicious/noTemplateCurlyInString: the shell's
const TELL = 'echo "$@"; echo "${PATH%%:*}"'

/** ./lab, where make is a program that tells its words and the first folder of PATH. */
function lab(args: string[], { place = folder, make = TELL } = {}) {
  mkdirSync(join(place, '.offline/bin'), { recursive: true })
  copyFileSync(join(projectRoot, 'lab'), join(place, 'lab'))
  if (!existsSync(join(place, '.offline/processor')))
    copyFileSync(join(offline, 'processor'), join(place, '.offline/processor'))
  writeFileSync(
    join(place, '.offline/bin/make'),
    `#!/bin/sh\n[ "$1" = --version ] && exit\n${make}\n`,
    { mode: 0o755 },
  )
  const { status, stdout, stderr } = spawnSync('/bin/sh', [join(place, 'lab'), ...args], {
    env: { PATH: '/usr/bin:/bin' },
    encoding: 'utf8',
  })
  return { status, stdout, stderr }
}

test('./lab passes its arguments to the make of the archive', () => {
  const bin = join(folder, '.offline/bin')
  expect(lab(['2', 'NAME=a b'])).toEqual({
    status: 0,
    stdout: `lab-2 NAME=a b\n${bin}\n`,
    stderr: '',
  })
  expect(lab(['check-2']).stdout).toBe(`check-2\n${bin}\n`)
})

test('./lab and make refuse an archive for another processor with one sentence', () => {
  const place = join(folder, 'elsewhere')
  mkdirSync(join(place, '.offline/bin'), { recursive: true })
  copyFileSync(join(projectRoot, 'Makefile'), join(place, 'Makefile'))
  writeFileSync(join(place, '.offline/processor'), 'riscv64\n')
  const output =
    /This offline archive runs on riscv64, and this is "(x86_64|aarch64)": take a clone .*`?make doctor`? there/
  expect(lab(['2'], { place })).toMatchObject({
    status: 2,
    stdout: '',
    stderr: expect.stringMatching(output),
  })
  const env = { PATH: '/usr/bin:/bin' }
  const { status, stderr } = spawnSync('make', ['lab-2'], { cwd: place, env, encoding: 'utf8' })
  expect({ status, stderr }).toMatchObject({ status: 2, stderr: expect.stringMatching(output) })
})

test('./lab reports with one sentence why it cannot run', () => {
  const odd = join(folder, 'a:b')
  expect(lab(['2'], { place: odd })).toMatchObject({
    status: 2,
    stderr: expect.stringMatching(/^ ✗ .*"[^"]*a:b".*colon.*\n$/),
  })
  chmodSync(join(folder, '.offline/bin/make'), 0o644)
  const args = [join(folder, 'lab'), '2']
  const { status, stderr } = spawnSync('/bin/sh', args, {
    env: { PATH: '/usr/bin:/bin' },
    encoding: 'utf8',
  })
  expect({ status, stderr }).toMatchObject({
    status: 2,
    stderr: expect.stringMatching(/^ ✗ .*can't be run.*noexec.*\n$/),
  })
})
