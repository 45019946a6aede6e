// What a hostile name, a lost output or a killed process may not do to the one who runs our
// commands.
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { readCaptureFolder } from '../../cluster/capture-folder.ts'
import { describeFailedStart } from '../../cluster/embedded.ts'
import { projectRoot } from '../../host/layout.ts'
import { ownTemporaryFolder } from '../../host/own-temporary-folder.ts'
import { typedWord } from '../../host/shell-word.ts'
import { explainSystemError } from '../../host/system-trouble.ts'
import { judgedLine } from '../../instructors/class/class-result.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'hardened-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const start = (script: string, env: Record<string, string> = {}) =>
  spawnSync('bash', ['-c', script, process.execPath], {
    cwd: projectRoot,
    env: { ...process.env, NAME: `hardened-${process.pid}`, CLUSTER: 'embedded', ...env },
    encoding: 'utf8',
  })

describe('output', () => {
  test.each([
    ['doctor', {}],
    ['incident', { LIST: '1' }],
  ])('of %s that is lost is trouble', (name, env) => {
    const { status, stderr } = start(`"$0" scripts/start.mjs scripts/${name}.ts >/dev/full`, env)
    expect(stderr).toMatch(/✗ The output can't be written \(ENOSPC\)/)
    expect(status).toBe(2)
  })

  test('that a reader closes early is none', () => {
    const { status } = start(
      'set -o pipefail; "$0" scripts/start.mjs scripts/doctor.ts | head -1 >/dev/null',
    )
    expect(status).toBe(0)
  })

  test('on standard error that is lost changes no result', () => {
    const { status } = start('"$0" scripts/start.mjs scripts/doctor.ts 2>/dev/full')
    expect(status).toBe(0)
  })
})

test.each([
  [{ CLUSTER: 'bogus' }, /CLUSTER="bogus" is not known: use "auto", "embedded", "kind"/],
  [{ CLUSTER: 'context:' }, /CLUSTER="context:" is not known: .*"context:NAME"/],
  [{ KERNEL: 'bogus' }, /KERNEL="bogus" is not known: use "auto", "uml" or "host"/],
])('doctor refuses %j', (env, told) => {
  const { status, stderr } = start('"$0" scripts/start.mjs scripts/doctor.ts', env)
  expect(stderr).toMatch(told)
  expect(status).toBe(2)
})

test.each([
  ['7', '7'],
  ['class-2/3', 'class-2/3'],
  ['$(id)', "'$(id)'"],
  ["it's; id", `'it'\\''s; id'`],
  ['', "''"],
  ['a b', "'a b'"],
])('a command to paste contains %j as one word', (text, word) => {
  expect(typedWord(text)).toBe(word)
  expect(spawnSync('sh', ['-c', `printf %s ${word}`], { encoding: 'utf8' }).stdout).toBe(text)
})

test('a file name with line ends fakes no line of a class', () => {
  const line = judgedLine({ file: 'a\n1/1 ✓ eve', refused: 'bad\n2/2 ✓ eve' } as never, 1, 1)
  expect(line).not.toContain('\n')
  expect(line).toContain('a\\n1/1 ✓ eve')
})

describe('a capture', () => {
  const captured = () => {
    const capture = join(folder, 'capture')
    mkdirSync(join(capture, 'nodes/worker'), { recursive: true })
    writeFileSync(join(capture, 'objects.json'), '{"items":[]}')
    return capture
  }

  test.each(['nodes', 'objects.json'])('whose "%s" is a link is refused', (name) => {
    const capture = captured()
    expect(readCaptureFolder(capture).nodes).toHaveLength(1)
    cpSync(join(capture, name), join(folder, name), { recursive: true })
    rmSync(join(capture, name), { recursive: true })
    symlinkSync(join(folder, name), join(capture, name))
    expect(() => readCaptureFolder(capture)).toThrow(/is not a (folder|regular file)/)
  })

  test('reads no node through a link', () => {
    const capture = captured()
    symlinkSync('/etc', join(capture, 'nodes/other'))
    symlinkSync('/etc/passwd', join(capture, 'nodes/worker/iptables-save'))
    const { nodes } = readCaptureFolder(capture)
    expect(nodes.map(({ name, files }) => [name, files.size])).toEqual([['worker', 0]])
  })
})

test('temporary folders of a killed process are removed by the next one, those of others stay', () => {
  const script = `import { ownTemporaryFolder } from './host/own-temporary-folder.ts'
console.log(ownTemporaryFolder('probe', process.argv[1])); process.kill(process.pid, 'SIGKILL')`
  const args = ['--import', 'tsx', '--input-type=module', '-e', script, folder]
  const { stdout } = spawnSync(process.execPath, args, { cwd: projectRoot, encoding: 'utf8' })
  expect(existsSync(stdout.trim())).toBe(true)
  mkdirSync(join(folder, 'probe-of-another-program'))
  const [one, other] = [ownTemporaryFolder('probe', folder), ownTemporaryFolder('probe', folder)]
  expect(existsSync(stdout.trim())).toBe(false)
  expect(readdirSync(folder)).toHaveLength(3)
  for (const own of [one, other]) expect(statSync(own).mode & 0o777).toBe(0o700)
})

test('whatever the umask is, no other user may change our programs', () => {
  const script = `umask 000; exec "$0" scripts/start.mjs scripts/submit.ts --help >/dev/null`
  const checkout = join(folder, 'checkout')
  const parts = ['package.json', 'host', 'scripts', 'node_modules']
  mkdirSync(checkout)
  for (const part of parts) symlinkSync(join(projectRoot, part), join(checkout, part))
  // Its own copy, whose folder is the checkout.
  rmSync(join(checkout, 'scripts'))
  mkdirSync(join(checkout, 'scripts'))
  cpSync(join(projectRoot, 'scripts/start.mjs'), join(checkout, 'scripts/start.mjs'))
  writeFileSync(join(checkout, 'scripts/submit.ts'), 'console.log("done")\n')
  const { status, stderr } = spawnSync('bash', ['-c', script, process.execPath], {
    cwd: checkout,
    encoding: 'utf8',
  })
  expect(status, stderr).toBe(0)
  const find = [
    '-path',
    '*/node_modules',
    '-prune',
    '-o',
    '-perm',
    '/o+w',
    '!',
    '-type',
    'l',
    '-print',
  ]
  expect(spawnSync('find', [join(checkout, '.cache'), ...find], { encoding: 'utf8' }).stdout).toBe(
    '',
  )
  expect(existsSync(join(checkout, '.cache/programs'))).toBe(true)
})

test('a program on a disk where none can be run is not made executable again', () => {
  const program = join(folder, 'program')
  writeFileSync(program, '')
  const error = Object.assign(new Error('spawn EACCES'), {
    code: 'EACCES',
    syscall: `spawn ${program}`,
    path: program,
  })
  expect(explainSystemError(error)).toMatch(/make it executable/)
  chmodSync(program, 0o755)
  expect(explainSystemError(error)).toMatch(/although it is executable: its disk is mounted noexec/)
})

test.each([
  ['SIGKILL', '', /\(SIGKILL\); another process on this machine killed it, or Linux because/],
  ['1', '', /\(1\); its log is empty: run the command again/],
  ['1', 'No room.', /\(1\): No room: run the command again, or see "\/log"\.$/],
])('a start that ended by %s with the last line %j is told in a sentence', (how, line, told) => {
  expect(describeFailedStart(how, line, '/log')).toMatch(told)
})
