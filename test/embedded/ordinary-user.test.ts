// The embedded cluster on this machine's own kernel, started by an ordinary user: other tests start
// it as the user who runs them, often root.
import { spawnSync } from 'node:child_process'
import {
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, relative } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ensurePackages, hostKernelTrouble } from '../../embedded/index.ts'
import { cacheFolder, projectRoot } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'
import { timeoutScale } from '../../host/wait.ts'

const USER = 1000
/** Program and words of a command as that user. */
const asUser = (args: readonly string[]): [string, string[]] => [
  'setpriv',
  [`--reuid=${USER}`, `--regid=${USER}`, '--clear-groups', '--', ...args],
]
const mayRead = (path: string) =>
  spawnSync(...asUser(['test', '-r', join(path, 'package.json')])).status === 0
const whyNot =
  process.getuid?.() !== 0
    ? 'all tests are run by an ordinary user already'
    : (hostKernelTrouble()?.detail ??
      (mayRead(projectRoot) ? undefined : `user ${USER} may not enter "${projectRoot}"`))
if (whyNot)
  console.log(`Not tested: the cluster of user ${USER} on this machine's own kernel, as ${whyNot}.`)

/** A checkout of that user's, with the packages of this one. */
let checkout: string
beforeAll(async () => {
  if (whyNot) return
  const packages = await ensurePackages(cacheFolder, silent)
  checkout = mkdtempSync(join(tmpdir(), 'ordinary-'))
  const others = ['.git', '.cache', 'node_modules', 'dist', 'captures', 'submissions', 'recordings']
  const filter = (path: string) =>
    !others.includes(basename(path)) || relative(projectRoot, path) === ''
  for (const name of readdirSync(projectRoot).filter((one) => !others.includes(one)))
    cpSync(join(projectRoot, name), join(checkout, name), {
      recursive: true,
      filter,
      verbatimSymlinks: true,
    })
  symlinkSync(join(projectRoot, 'node_modules'), join(checkout, 'node_modules'))
  mkdirSync(join(checkout, '.cache/packages'), { recursive: true })
  for (const suffix of ['', '.manifest'])
    cpSync(packages + suffix, join(checkout, '.cache/packages', basename(packages) + suffix), {
      recursive: true,
      verbatimSymlinks: true,
      preserveTimestamps: true,
    })
  spawnSync('chown', ['-hR', `${USER}:${USER}`, checkout])
  chownSync(checkout, USER, USER)
})
afterAll(() => {
  if (checkout) rmSync(checkout, { recursive: true })
})

function run(script: string, env: Record<string, string> = {}, ...args: string[]) {
  const own = {
    // The PATH of Debian's ordinary users (/etc/profile).
    PATH: '/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games',
    CLUSTER: 'embedded',
    KERNEL: 'host',
    NAME: `ordinary-${process.pid}`,
    HOME: checkout,
  }
  const { status, stdout, stderr } = spawnSync(
    ...asUser([process.execPath, 'scripts/start.mjs', script, ...args]),
    {
      cwd: checkout,
      env: { ...process.env, ...own, ...env },
      encoding: 'utf8',
      timeout: 100_000 * timeoutScale(),
    },
  )
  return { status, stdout, text: stdout + stderr }
}

const processesOfUser = () =>
  spawnSync('ps', ['-o', 'args=', '-U', String(USER)], { encoding: 'utf8' })
    .stdout.split('\n')
    .filter((line) => line.includes(checkout))

describe.skipIf(whyNot)(`user ${USER}`, () => {
  test('starts a cluster, is root of its nodes only, and plays lab 7 with mode nftables to its end', () => {
    const up = run('scripts/up.ts')
    expect(up, up.text).toMatchObject({ status: 0 })
    const node = run('scripts/exec.ts', {
      CMD: `id -u; cat /proc/self/uid_map; echo x 2>&1 >${checkout}/canary; nft add table ip canary && nft list tables`,
    })
    expect(node.stdout.replace(/ +/g, ' ')).toMatch(new RegExp(`^0\\n 0 ${USER} 1\\n`))
    expect(node.stdout).toContain('table ip canary')
    expect(readdirSync(checkout)).not.toContain('canary')
    const lab = run('scripts/lab.ts', {}, '7')
    expect(lab.stdout, lab.text).toContain('Score: 100/100 points, 18 of 18 steps passed')
    const down = run('scripts/down.ts')
    expect(down, down.text).toMatchObject({ status: 0 })
    expect(processesOfUser()).toEqual([])
  })
})
