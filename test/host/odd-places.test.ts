import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { ownKubeconfig } from '../../cluster/context/own-objects.ts'
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
  for (const name of ['file-is-folder', 'file-is-pipe', 'file-is-socket'])
    rmSync(at(name, 'iptables-save'))
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

/** Runs a script: whatever is wrong is one sentence, exit code 2, and no hang. */
async function expectSentence(script: string, args: string[]): Promise<void> {
  const { DEBUG: _, ...own } = process.env
  const child = spawn(process.execPath, ['scripts/start.mjs', script, ...args], {
    cwd: projectRoot,
    env: { ...own, NO_COLOR: '1', CLUSTER: 'embedded', NAME: 'not-there' },
    timeout: 100_000,
  })
  let printed = ''
  for (const output of [child.stdout, child.stderr])
    output.on('data', (chunk: Buffer) => {
      printed += chunk.toString()
    })
  const code = await new Promise((resolve) => child.on('close', resolve))
  expect({ code, printed }).toMatchObject({ code: 2 })
  expect(printed).not.toMatch(/^\s+at |\b(ENO|EIS|EACC|ELOOP|ENAME|errno|syscall)/m)
  // A report says what kept it from being one.
  expect(printed).toMatch(/^( ✗|!) "?\S/m)
}

describe('a path that is not an ordinary file', () => {
  test.each([
    ['nowhere', 'does not exist'],
    ['file/x', 'is not a folder, or a part of its path is not'],
    ['empty', 'is a folder, not a file'],
    ['loop', 'is a link to itself'],
    ['dangling', 'does not exist'],
    ['pipe', 'is not a regular file'],
    ['socket', 'is not a regular file'],
    ['x'.repeat(300), 'is longer than a path may be'],
  ])('%s is named in a sentence', (name, fault) => {
    expect(() => readPlainFile(at(name))).toThrow(new PlainFileError(at(name), fault))
  })

  test('a device, and a file that is too large, are not read', () => {
    expect(() => readPlainFile('/dev/zero')).toThrow('is not a regular file')
    writeFileSync(at('large'), 'x'.repeat(2 ** 20 + 1))
    expect(() => readPlainFile(at('large'), 2 ** 20)).toThrow('is larger than 1 MiB')
    expect(readPlainFile(at('file'))).toBe('')
  })

  test('a result that can’t be written is refused before the work', () => {
    expect(() => requireWritable(at('empty'))).toThrow('is a folder')
    expect(() => requireWritable(at('nowhere/x'))).toThrow(
      `can't be written: "${at('nowhere')}" does not exist.`,
    )
    expect(() => requireWritable(at('file/x'))).toThrow(/can't be written/)
    requireWritable(at('new'))
    requireWritable(at('file'))
    requireWritable('/dev/null')
  })
})

describe('an unusable path is one sentence, and no command waits', () => {
  const node = ['--node', 'n', '--mode', 'iptables', '--kube-proxy', 'v1.30']
  const packet = ['--from', 'host', '--to', '10.96.0.1:80']
  const recorded = join(projectRoot, 'data/recordings/kind-v1.20.2/web-clusterip')
  test.each<[script: string, args: () => string[]]>([
    ['trace', () => ['--capture', at('file-is-pipe'), ...packet]],
    ['trace', () => ['--capture', at('nodes-is-file'), ...packet]],
    ['expect', () => ['--diff', at('file-is-folder'), ...node]],
    ['expect', () => ['--objects', at('pipe'), ...node]],
    ['check', () => ['--lab', '2', '--capture', at('objects-is-pipe')]],
    ['check', () => ['--lab', '2', '--capture', at('nodes-is-file')]],
    ['check', () => ['--lab', '2', '--capture', recorded, '--output', at('nowhere/x')]],
    ['grade-class', () => ['--kubeconfigs', at('file'), '--lab', '2']],
    ['grade-class', () => [at('file'), '--csv', at('empty')]],
  ])('for %s', async (script, args) => {
    await expectSentence(`scripts/${script}.ts`, args())
  })

  test.each([
    ['is not there', () => at('nowhere'), /needs a kubeconfig, but "\S+nowhere" does not exist/],
    ['is a folder', () => at('empty'), /is a folder, not a file/],
    ['is a pipe', () => at('pipe'), /is not a regular file/],
    ['is an empty file', () => at('file'), /is not a kubeconfig/],
  ])('for a kubeconfig that %s', async (_what, file, says) => {
    vi.stubEnv('KUBECONFIG', file())
    await expect(ownKubeconfig('a', folder)).rejects.toThrow(says)
    vi.unstubAllEnvs()
  })
})

test('a checkout from which Node.js can run nothing is refused before anything else', () => {
  const checkout = at('a\\b')
  mkdirSync(checkout)
  cpSync(join(projectRoot, 'Makefile'), join(checkout, 'Makefile'))
  const { status, stderr } = spawnSync('make', ['up'], { cwd: checkout, encoding: 'utf8' })
  expect(status).toBe(2)
  expect(stderr).toMatch(/contains a backslash.*rename or move the folder/)
})
