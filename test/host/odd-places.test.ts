import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { projectRoot } from '../../host/layout.ts'
import { PlainFileError, readPlainFile, requireWritable } from '../../host/plain-file.ts'

const recording = join(projectRoot, 'data/recordings/v1.30.3/iptables/web-clusterip')
let folder: string
const at = (...names: string[]) => join(folder, ...names)
const socket = createServer()

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'odd-places-'))
  mkdirSync(at('empty'))
  writeFileSync(at('file'), '')
  symlinkSync('loop', at('loop'))
  symlinkSync('nowhere', at('dangling'))
  execFileSync('mkfifo', [at('pipe')])
  await new Promise<void>((resolve) => socket.listen(at('socket'), resolve))
  for (const name of ['file-is-folder', 'file-is-pipe', 'file-is-socket'])
    cpSync(recording, at(name), { recursive: true })
  for (const name of ['file-is-folder', 'file-is-pipe', 'file-is-socket']) rmSync(at(name, 'iptables-save'))
  mkdirSync(at('file-is-folder/iptables-save'))
  execFileSync('mkfifo', [at('file-is-pipe/iptables-save')])
  symlinkSync(at('socket'), at('file-is-socket/iptables-save'))
  mkdirSync(at('nodes-is-file'))
  writeFileSync(at('nodes-is-file/nodes'), '')
  writeFileSync(at('nodes-is-file/objects.json'), '{"items":[]}')
  mkdirSync(at('objects-is-pipe/nodes/n'), { recursive: true })
  execFileSync('mkfifo', [at('objects-is-pipe/objects.json')])
})
afterAll(() => {
  socket.close()
  rmSync(folder, { recursive: true })
})

const ODD = ['nowhere', 'nowhere/x', 'file', 'file/x', 'empty', 'loop', 'dangling', 'pipe', 'socket', 'x'.repeat(300)]
const CAPTURES = [...ODD, 'file-is-folder', 'file-is-pipe', 'file-is-socket', 'nodes-is-file', 'objects-is-pipe']

/** Runs a script. Whatever is wrong is one sentence, exit code 2, and no hang. */
function expectSentence(script: string, words: string[], env: Record<string, string> = {}): Promise<string> {
  const { DEBUG: _, ...own } = process.env
  const child = spawn(process.execPath, ['scripts/start.mjs', script, ...words], {
    cwd: projectRoot,
    env: { ...own, NO_COLOR: '1', CLUSTER: 'embedded', NAME: 'not-there', ...env },
    timeout: 100_000,
  })
  let stderr = ''
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString()
  })
  return new Promise((resolve) => {
    child.on('close', (code) => {
      expect({ code, stderr }).toMatchObject({ code: 2 })
      expect(stderr).not.toMatch(/^\s+at |\b(ENO|EIS|EACC|ELOOP|ENAME|errno|syscall)/m)
      expect(stderr).toMatch(/^ ✗ .*[.:;)a-z]\s*$/m)
      resolve(stderr)
    })
  })
}

describe('a file that is none', () => {
  test.each([
    ['nowhere', 'does not exist'],
    ['file/x', 'is no folder, or a part of its path is none'],
    ['empty', 'is a folder, not a file'],
    ['loop', 'is a link to itself'],
    ['dangling', 'does not exist'],
    ['pipe', 'is no ordinary file'],
    ['socket', 'is no ordinary file'],
    ['x'.repeat(300), 'is longer than a path may be'],
  ])('%s is named in a sentence', (name, fault) => {
    expect(() => readPlainFile(at(name))).toThrow(new PlainFileError(at(name), fault))
  })

  test('a device, and a file that is too large, are not read', () => {
    expect(() => readPlainFile('/dev/zero')).toThrow('is no ordinary file')
    writeFileSync(at('large'), 'x'.repeat(2 ** 20 + 1))
    expect(() => readPlainFile(at('large'), 2 ** 20)).toThrow('is larger than 1 MiB')
    expect(readPlainFile(at('file'))).toBe('')
  })

  test('a result that can’t be written is refused before the work', () => {
    expect(() => requireWritable(at('empty'))).toThrow('is a folder')
    expect(() => requireWritable(at('nowhere/x'))).toThrow(`can't be written: "${at('nowhere')}" does not exist.`)
    expect(() => requireWritable(at('file/x'))).toThrow(/can't be written/)
    requireWritable(at('new'))
    requireWritable(at('file'))
    requireWritable('/dev/null')
  })
})

describe('odd places are one sentence, and nobody waits', () => {
  const packet = ['--from', 'host', '--to', '10.96.0.1:80']
  test('for a trace', () =>
    Promise.all(CAPTURES.map((name) => expectSentence('scripts/trace.ts', ['--capture', at(name), ...packet]))))

  test('for a comparison, and the objects of a prediction', async () => {
    const node = ['--node', 'n', '--mode', 'iptables', '--kube-proxy', 'v1.30']
    await Promise.all(CAPTURES.map((name) => expectSentence('scripts/expect.ts', ['--diff', at(name), ...node])))
    await Promise.all(ODD.map((name) => expectSentence('scripts/expect.ts', ['--objects', at(name), ...node])))
  })

  test('for grading', async () => {
    await Promise.all(CAPTURES.map((name) => expectSentence('scripts/check.ts', ['--lab', '2', '--capture', at(name)])))
    const capture = ['--capture', join(projectRoot, 'data/recordings/kind-v1.20.2/web-clusterip'), '--lab', '2']
    for (const output of [at('nowhere/x'), at('empty'), at('file/x'), at('x'.repeat(300))])
      expect(await expectSentence('scripts/check.ts', [...capture, '--output', output])).toContain(output)
  })

  test('for a class', async () => {
    const graded = ODD.filter((name) => name !== 'empty' && name !== 'loop')
    await Promise.all(
      graded.map((name) => expectSentence('scripts/grade-class.ts', ['--kubeconfigs', at(name), '--lab', '2'])),
    )
    await Promise.all(
      [at('file/x/y.csv'), at('empty')].map((csv) =>
        expectSentence('scripts/grade-class.ts', [at('file'), '--csv', csv]),
      ),
    )
  })

  test.each([
    [
      'a file that is not there',
      () => ({ KUBECONFIG: at('nowhere') }),
      /needs a kubeconfig, but "\S+nowhere" does not exist/,
    ],
    ['none', () => ({ KUBECONFIG: '', HOME: at('empty') }), /needs a kubeconfig, but "\S+config" does not exist/],
    ['a folder', () => ({ KUBECONFIG: at('empty') }), /is a folder, not a file/],
    ['a pipe', () => ({ KUBECONFIG: at('pipe') }), /is no ordinary file/],
    ['an empty file', () => ({ KUBECONFIG: at('file') }), /is no kubeconfig/],
  ])('for a context of a kubeconfig that is %s', async (_what, env, says) => {
    expect(await expectSentence('scripts/status.ts', [], { CLUSTER: 'context:a', ...env() })).toMatch(says)
  })
})

test('a checkout from which Node.js runs nothing says so before anything begins', () => {
  const checkout = at('a\\b')
  mkdirSync(checkout)
  cpSync(join(projectRoot, 'Makefile'), join(checkout, 'Makefile'))
  const { status, stderr } = spawnSync('make', ['up'], { cwd: checkout, encoding: 'utf8' })
  expect(status).toBe(2)
  expect(stderr).toMatch(/has a backslash in it.*rename or move the folder/)
})
