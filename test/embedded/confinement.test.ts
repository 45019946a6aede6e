import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  CONFINE,
  type Confinement,
  detectConfinement,
  publicPaths,
} from '../../embedded/machine/confinement.ts'
import { startMachine } from '../../embedded/machine/guest-machine.ts'
import { ensurePackages } from '../../embedded/machine/packages.ts'
import { cacheFolder, projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'

/** A folder of the host as an attacker would like to find it. */
let canary: string
beforeEach(() => {
  canary = mkdtempSync(join(tmpdir(), 'canary-'))
  writeFileSync(join(canary, 'file'), 'of the host\n', { mode: 0o644 })
  mkdirSync(join(canary, 'folder'))
  chmodSync(canary, 0o777)
})
afterEach(() => rmSync(canary, { recursive: true, force: true }))

/** What a change of any kind would show in. */
const stateOf = (path: string) => {
  const { mode, uid, gid, size, nlink, mtimeMs, ino } = lstatSync(path)
  return { mode, uid, gid, size, nlink, mtimeMs, ino }
}
const state = () => ({
  names: readdirSync(canary).sort(),
  text: existsSync(join(canary, 'file')) && readFileSync(join(canary, 'file'), 'utf8'),
  inodes: ['.', ...readdirSync(canary).sort()].map((name) => stateOf(join(canary, name))),
})

/** Every kind of change, each on its own; prints those that worked. */
const changes: Record<string, string> = {
  create: 'echo new >new',
  write: 'echo changed >file',
  append: 'echo more >>file',
  truncate: 'truncate -s 0 file',
  remove: 'rm -f file',
  rename: 'mv file other',
  link: 'ln file link',
  'symbolic link': 'ln -s file link',
  mkdir: 'mkdir more',
  rmdir: 'rmdir folder',
  'setuid program': 'cp /bin/true setuid && chmod 4755 setuid',
  'device node': 'mknod null c 1 3',
  fifo: 'mkfifo fifo',
  chmod: 'chmod 4777 file',
  chown: 'chown 1000:1000 file',
  touch: 'touch -d 2001-01-01 file',
  'extended attribute': 'setfattr -n user.a -v b file',
}
const attempts = (folder: string) =>
  [
    `cd '${folder}' || { echo unreachable; exit; }`,
    ...Object.entries(changes).map(
      ([name, command]) => `if ( ${command} ) 2>&-; then echo '${name}'; fi`,
    ),
  ].join('\n')

async function asRootOfTheGuest(confinement: Confinement | undefined) {
  const directory = mkdtempSync(join(tmpdir(), 'confined-'))
  const packages = await ensurePackages(cacheFolder, silent)
  const options = { packages, directory, name: basename(directory), memoryMegabytes: 512 }
  const machine = await startMachine({ ...options, ...(confinement && { confinement }) })
  const mount = `mkdir /tmp/host && mount -t hostfs none /tmp/host -o '${canary}' || echo 'not mounted'`
  try {
    const output = await machine.run(['sh', '-c', `${mount}\n${attempts('/tmp/host')}`])
    const read = await machine.run(['cat', '/tmp/host/file'])
    return { output: output.stdout, read }
  } finally {
    await machine.stop()
    rmSync(directory, { recursive: true })
  }
}

describe('root of the guest, with the file system of the host mounted,', () => {
  test('changes nothing on the host, and reads nothing but programs', async () => {
    const before = state()
    const { read } = await asRootOfTheGuest(undefined)
    expect(state()).toEqual(before)
    if (detectConfinement(join(cacheFolder, 'packages/kernel')).files !== 'landlock') return
    expect(read.stdout).toBe('')
    expect(read.stderr).toContain('Permission denied')
  })

  test('changes nothing on the host where there is no Landlock', async () => {
    const before = state()
    const { read } = await asRootOfTheGuest({
      files: 'mounts',
      signals: 'namespace',
      systemCalls: true,
    })
    expect(state()).toEqual(before)
    expect(read.stdout).toBe('of the host\n')
  })

  test('can change the host without confinement, so that the attempts prove something', async () => {
    const before = state()
    const { output } = await asRootOfTheGuest({
      files: undefined,
      signals: undefined,
      systemCalls: false,
    })
    expect(output).toContain('create\n')
    expect(state()).not.toEqual(before)
  })
})

describe('a confined program', () => {
  const programs = ['/usr', '/bin', '/lib', '/lib64']
  test.each([
    ['landlock', 0],
    ['landlock', 65_534],
    ['mounts', 0],
    ['mounts', 65_534],
  ] as const)('changes nothing but its folder, by %s, as user %i', async (files, uid) => {
    if (uid !== 0 && process.getuid?.() !== 0) return
    const packages = await ensurePackages(cacheFolder, silent)
    const [own, program] = [mkdtempSync(join(tmpdir(), 'own-')), join(canary, 'confine')]
    chmodSync(own, 0o777)
    copyFileSync(join(packages, CONFINE), program)
    const before = state()
    const options = [
      '--capabilities',
      '4',
      `--${files}`,
      '--filter',
      ...programs.flatMap((path) => ['--read', path]),
    ]
    const script = `${attempts(canary)}\necho own >'${own}/file' && mv '${own}/file' '${own}/moved'`
    const identity = process.getuid?.() === 0 ? { uid, gid: uid } : {}
    const output = spawnSync(program, [...options, '--write', own, '--', 'sh', '-c', script], {
      ...identity,
      encoding: 'utf8',
    })
    expect(output.stderr).toBe('')
    expect(output.stdout).toBe('')
    expect(state()).toEqual(before)
    expect(readFileSync(join(own, 'moved'), 'utf8')).toBe('own\n')
    rmSync(own, { recursive: true })
  })

  test('reaches no other program', async () => {
    const confine = join(await ensurePackages(cacheFolder, silent), CONFINE)
    const reach = (...options: string[]) => {
      const victim = spawnSync('sh', ['-c', 'sleep 60 >/dev/null 2>&1 & echo $!'], {
        encoding: 'utf8',
      }).stdout.trim()
      const { status } = spawnSync(confine, [...options, '--', 'bash', '-c', `kill -0 ${victim}`])
      process.kill(Number(victim))
      return status
    }
    expect(reach()).toBe(0)
    if (detectConfinement(join(cacheFolder, 'packages/kernel')).files !== 'landlock') return
    const read = programs.flatMap((path) => ['--read', path])
    expect(reach('--apart', '--landlock', ...read)).not.toBe(0)
  })

  test.each(['--apart', '--mounts'])(
    'with %s ends by its own SIGABRT, as User-Mode Linux does after a panic',
    async (option) => {
      const confine = join(await ensurePackages(cacheFolder, silent), CONFINE)
      const itself = spawnSync(confine, [option, '--', 'sh', '-c', 'kill -ABRT $$; echo here'], {
        encoding: 'utf8',
      })
      expect(itself).toMatchObject({ status: 128 + 6, stdout: '' })
    },
  )
})

test.runIf(process.arch === 'x64')(
  'a cluster starts and ends where Landlock does not forbid signals, as before Linux 6.12',
  () => {
    const older = join(projectRoot, 'test/embedded/before-landlock-scopes.pl')
    const env = { ...process.env, CLUSTER: 'embedded', KERNEL: 'uml' }
    const run = (script: string, more: Record<string, string> = {}) =>
      spawnSync('perl', [older, process.execPath, 'scripts/start.mjs', script], {
        cwd: projectRoot,
        encoding: 'utf8',
        env: { ...env, NAME: `scopes-${process.pid}`, ...more },
      })
    const up = run('scripts/up.ts')
    try {
      expect(up, up.stderr).toMatchObject({ status: 0 })
      expect(run('scripts/exec.ts', { CMD: 'id -u' }).stdout).toBe('0\n')
    } finally {
      expect(run('scripts/down.ts')).toMatchObject({ status: 0 })
    }
  },
)

test('the public paths of a folder omit private files, and only those', () => {
  const secret = (path: string, mode: number) => {
    writeFileSync(join(canary, path), '')
    chmodSync(join(canary, path), mode)
  }
  mkdirSync(join(canary, 'ssl/private'), { recursive: true })
  chmodSync(join(canary, 'ssl/private'), 0o700)
  secret('ssl/openssl.cnf', 0o644)
  secret('shadow', 0o640)
  expect(publicPaths(canary).sort()).toEqual(
    ['file', 'folder', 'ssl/openssl.cnf'].map((name) => join(canary, name)),
  )
  expect(publicPaths(join(canary, 'folder'))).toEqual([join(canary, 'folder')])
})
