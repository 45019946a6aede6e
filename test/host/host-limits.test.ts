import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { memoryFolder, requireLimits } from '../../embedded/machine/host-resources.ts'
import { projectRoot } from '../../host/layout.ts'
import { explainSystemError, freeMegabytes } from '../../host/system-trouble.ts'

const limits = (changes: Record<string, string>) =>
  Object.entries(changes).reduce(
    (text, [line, soft]) => text.replace(new RegExp(`^${line}\\s+\\S+`, 'm'), `${line}    ${soft}`),
    readFileSync('/proc/self/limits', 'utf8').replaceAll(
      /^(Max [a-z ]+?) {2,}\S+/gm,
      '$1  unlimited',
    ),
  )

test('limits that are high enough, or none, are accepted', () => {
  expect(() => requireLimits(1024, limits({}))).not.toThrow()
  expect(() =>
    requireLimits(1024, limits({ 'Max file size': '2000000000', 'Max open files': '1024' })),
  ).not.toThrow()
})

test.each([
  [
    'Max file size',
    '500000000',
    /476 MB in a file are allowed, and 1024 are needed: `ulimit -f unlimited` raises it/,
  ],
  ['Max address space', '2000000000', /1907 MB of address space.*`ulimit -v unlimited`/],
  ['Max open files', '40', /40 open files.*`ulimit -n 1024`/],
  ['Max processes', '30', /30 processes.*`ulimit -u 1024`/],
])('%s of %s is reported with the command that raises it', (line, soft, told) => {
  expect(() => requireLimits(1024, limits({ [line]: soft }))).toThrow(told)
})

test('all limits that are too low are reported at once', () => {
  const both = limits({ 'Max open files': '40', 'Max file size': '0' })
  expect(() => requireLimits(1024, both)).toThrow(/ulimit -f unlimited.*ulimit -n 1024/)
})

test("the guest's memory is placed where there is space, else the message tells how much there is", () => {
  expect(memoryFolder(1, ['/nowhere', tmpdir()])).toBe(tmpdir())
  const tooMuch = freeMegabytes(tmpdir()) * 10
  expect(() => memoryFolder(tooMuch, [tmpdir()])).toThrow(
    new RegExp(
      `needs ${tooMuch} MB of room for its memory, in a folder where programs can be run, and "${tmpdir()}" has \\d+ MB free: make room, .*TMPDIR=`,
    ),
  )
})

test('a folder that is mounted noexec is passed over, and named where there is no other', () => {
  const script = `mount -t tmpfs -o noexec,size=8M tmpfs "$1" && exec "$2" --import tsx --input-type=module -e '
import { memoryFolder } from "./embedded/machine/host-resources.ts"
console.log(memoryFolder(1, [process.argv[1], process.argv[2]]))
try { memoryFolder(1, [process.argv[1]]) } catch (error) { console.log(error.message) }' "$1" "$3"`
  const folders = [
    mkdtempSync(join(tmpdir(), 'noexec-')),
    mkdtempSync(join(tmpdir(), 'exec-')),
  ] as const
  const args = ['--user', '--map-root-user', '--mount', 'sh', '-c', script, 'sh', folders[0]]
  const { stdout, stderr } = spawnSync('unshare', [...args, process.execPath, folders[1]], {
    cwd: projectRoot,
    encoding: 'utf8',
  })
  for (const folder of folders) rmSync(folder, { recursive: true })
  expect(stderr).toBe('')
  expect(stdout).toMatch(
    new RegExp(`^${folders[1]}\\n.*and "${folders[0]}" is mounted noexec or can't be written: `),
  )
})

test.each([
  ['ENOSPC', 'write', /^No space is left for "\/x\/y": \d+ MB are free and 400 MB are needed/],
  ['EROFS', 'mkdir', /^"\/x\/y" can't be written or read \(EROFS\): change its owner or mode/],
  ['EACCES', 'open', /^"\/x\/y" can't be written or read/],
  ['EACCES', 'spawn sh', /^"\/x\/y" can't be run: make it executable/],
  ['ENOTDIR', 'mkdir', /^"\/x\/y" is a file in the wrong place: delete it/],
  ['EISDIR', 'read', /^"\/x\/y" is a folder in the wrong place: delete it/],
  ['EMFILE', 'open', /ulimit -n/],
  ['EAGAIN', 'spawn sh', /ulimit -u/],
  ['EFBIG', 'write', /ulimit -f/],
])('%s of %s is one sentence', (code, syscall, told) => {
  const error = Object.assign(new Error(`${code}: something, ${syscall}`), {
    code,
    syscall,
    path: '/x/y',
  })
  expect(explainSystemError(error)).toMatch(told)
})

test('other errors are not changed', () => {
  expect(explainSystemError(new Error('no network'))).toBeUndefined()
  expect(
    explainSystemError(Object.assign(new Error('x'), { code: 'ECONNREFUSED', syscall: 'connect' })),
  ).toBeUndefined()
})
