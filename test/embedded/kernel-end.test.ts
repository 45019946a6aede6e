import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest'
import { $ } from 'zx'
import { notUp } from '../../cluster/driver.ts'
import { EmbeddedCluster } from '../../cluster/embedded.ts'
import { daemonOf, ensurePackages, startMachine } from '../../embedded/index.ts'
import { cacheFolder, clusterFolder, projectRoot } from '../../host/layout.ts'
import { processStartTime } from '../../host/live-process.ts'
import { silent } from '../../host/progress.ts'
import { timeoutScale, waitFor } from '../../host/wait.ts'

const name = `end-${process.pid}`
const processes = async () =>
  (await $({ quiet: true })`ps -eo args`).stdout
    .split('\n')
    .filter((l) => l.includes(`umid=${name}`))

/**
 * The processes of the kernel that it does not trace: itself with its helper, and the forker of
 * uml-shim.c.
 */
const untraced = () =>
  readdirSync('/proc').flatMap((pid) => {
    try {
      const read = (file: string) => readFileSync(`/proc/${pid}/${file}`, 'utf8')
      if (!read('cmdline').split('\0').includes(`umid=${name}`)) return []
      if (!/^TracerPid:\t0$/m.test(read('status')) || read('comm') !== 'linux.uml\n') return []
      return [{ pid, mappings: read('maps').split('\n').length }]
    } catch {
      // It has ended.
      return []
    }
  })

/** Links of ours to a folder whose name a kernel's command line can't carry. */
const linksTo = (folder: string) =>
  readdirSync('/tmp').filter((entry) => {
    const link = join('/tmp', entry, 'here')
    return (
      entry.startsWith('kube-service-labs-') && existsSync(link) && readlinkSync(link) === folder
    )
  })

test('a kernel boots in a folder of any name, and leaves nothing while the process that started it continues', async () => {
  const directory = mkdtempSync(join(cacheFolder, 'the kernel\'s "end" '))
  const packages = join(directory, 'pack"ages')
  await $`cp -al ${await ensurePackages(cacheFolder, silent)} ${packages}`
  const machine = await startMachine({ packages, directory, name, memoryMegabytes: 512 })
  expect((await machine.run(['modprobe', 'bridge'])).stderr).toBe('')
  expect((await machine.run(['echo', 'here'])).stdout).toBe('here\n')
  // Copied into the guest's memory while it booted.
  const libc = '/usr/lib/x86_64-linux-gnu/libc.so.6'
  const { stdout: seen } = await machine.run(['sh', '-c', `stat -L -c %Y ${libc}; md5sum <${libc}`])
  const [written, sum] = seen.split('\n')
  expect(Number(written) * 1000).toBeGreaterThan(Date.now() - 600_000)
  expect(sum).toBe((await $`md5sum <${libc}`).stdout.trim())
  // libuv's io_uring corrupts the page tables of this kernel (Node 22 and later).
  const uring = 'cat /proc/sys/kernel/io_uring_disabled; echo $UV_USE_IO_URING'
  expect((await machine.run(['sh', '-c', uring])).stdout).toBe('2\n0\n')
  expect((await processes()).length).toBeGreaterThan(3)
  expect([...linksTo(directory), ...linksTo(packages)]).toHaveLength(2)
  await machine.stop()
  await waitFor(
    'the processes of the kernel to end',
    3000,
    async () => (await processes()).length === 0,
  )
  expect([...linksTo(directory), ...linksTo(packages)]).toEqual([])
  rmSync(directory, { recursive: true })
})

test('a fork that fails while it copies memory ends no kernel', async () => {
  const directory = mkdtempSync(join(cacheFolder, 'failed-fork-'))
  const packages = await ensurePackages(cacheFolder, silent)
  const machine = await startMachine({ packages, directory, name, memoryMegabytes: 512 })
  // The kernel promises half of its memory at most. Perl has two copies of its text, and the child
  // would have two more.
  await machine.run(['sh', '-c', 'echo 2 >/proc/sys/vm/overcommit_memory'])
  const fork = '$x = "a" x 65_000_000; print defined fork ? "forked" : $!'
  expect((await machine.run(['perl', '-e', fork])).stdout).toBe('Cannot allocate memory')
  expect((await machine.run(['echo', 'here'])).stdout).toBe('here\n')
  await machine.stop()
  rmSync(directory, { recursive: true })
})

test('processes of the guest are forked by a process that has mapped little, and without it by the kernel', async () => {
  const directory = mkdtempSync(join(cacheFolder, 'forker-'))
  const packages = await ensurePackages(cacheFolder, silent)
  const machine = await startMachine({ packages, directory, name, memoryMegabytes: 512 })
  expect((await machine.run(['modprobe', 'bridge'])).stderr).toBe('')
  const [forker, kernel] = untraced().sort((one, other) => one.mappings - other.mappings)
  expect(forker?.mappings).toBeLessThan((kernel?.mappings ?? 0) / 2)
  // Its children are the kernel's, which traces them.
  const children = `/proc/${forker?.pid}/task/${forker?.pid}/children`
  expect(readFileSync(children, 'utf8')).toBe('')
  process.kill(Number(forker?.pid), 'SIGKILL')
  expect((await machine.run(['sh', '-c', 'echo here; echo there'])).stdout).toBe('here\nthere\n')
  expect((await machine.run(['echo', 'again'])).stdout).toBe('again\n')
  await machine.stop()
  rmSync(directory, { recursive: true })
})

describe('a cluster whose kernel ends reports why', () => {
  const notes: string[] = []
  const progress = { start() {}, end() {}, note: (text: string) => void notes.push(text) }
  const cluster = new EmbeddedCluster(`died-${process.pid}`)
  const folder = clusterFolder(cluster.name)
  const run = async (script: string, args: string[], env: Record<string, string> = {}) => {
    const { exitCode, stdout, stderr } = await $({
      quiet: true,
      nothrow: true,
      cwd: projectRoot,
      env: { ...process.env, NAME: cluster.name, CLUSTER: 'embedded', CI: '1', ...env },
    })`${process.execPath} scripts/start.mjs scripts/${script}.ts ${args}`
    return { exitCode, output: stdout + stderr }
  }
  const ended = () =>
    waitFor('the daemon to end', 15_000, async () => daemonOf(cluster.name) === undefined)
  const inGuest = (script: string) =>
    cluster.exec(`${cluster.name}-worker`, ['sh', '-c', `${script}; sleep 60`], {
      timeoutMs: 60_000 * timeoutScale(),
    })
  const kernels = () =>
    execFileSync('ps', ['-eo', 'pid,ppid,args'], { encoding: 'utf8' })
      .split('\n')
      .filter((line) => line.includes(` umid=${cluster.name} `) && !/ sh -c /.test(line))
      .map((line) => line.trim().split(/\s+/).map(Number))

  /** Stops the processes of the kernel, at once: the start of a cluster goes on meanwhile. */
  const hang = () => {
    for (const [pid = Number.NaN] of kernels())
      try {
        process.kill(pid, 'SIGSTOP')
      } catch {
        // A process of the guest has ended since the list was made.
      }
  }

  afterEach(() => {
    vi.unstubAllEnvs()
  })
  afterAll(() => cluster.down(progress))

  /** How long the latest start took. */
  let startMs = 20_000

  /**
   * What a command says of the end, in one line, and the next `make up`, which starts a new
   * cluster.
   */
  async function expectNote(
    output: string[],
    reason: string | RegExp,
    [file, content]: readonly [string, RegExp],
  ) {
    const log = join(folder, file)
    for (const text of output) {
      const [line = '', ...more] = text.split('\n').filter((one) => one.includes('is not up'))
      expect(more).toEqual([])
      expect(line).toContain(`The cluster "${cluster.name}" is not up: `)
      expect(line).toMatch(reason)
      expect(line).toContain(`the log is "${log}". Run \`make up\``)
      expect(text).not.toContain('Call Trace')
    }
    expect(readFileSync(log, 'utf8')).toMatch(content)
    const begun = performance.now()
    await cluster.up(progress)
    startMs = performance.now() - begun
    expect(notes.at(-1)).toMatch(reason)
    expect((await cluster.exec(`${cluster.name}-worker`, ['echo', 'here'])).stdout).toBe('here\n')
  }

  test('a panic, whatever the command', async () => {
    await cluster.up(progress)
    await Promise.all([inGuest('echo c >/proc/sysrq-trigger').catch(() => {}), ended()])
    const asked = await Promise.all([
      run('status', []),
      run('exec', [], { CMD: 'true' }),
      run('check', ['--lab', '2']),
      run('mode', ['ipvs']),
      run('reset', ['2']),
      run('trace', ['--from', 'host', '--to', '10.96.0.1:443']),
    ])
    expect(asked.map(({ exitCode }) => exitCode)).toEqual([1, 2, 2, 2, 2, 2])
    const reason = 'its kernel ended with "Kernel panic - not syncing: sysrq triggered crash"'
    await expectNote(
      asked.map(({ output }) => output),
      reason,
      ['console.log', /Call Trace:/],
    )
  })

  const ends = [
    {
      how: 'no memory left for its guest agent',
      end: () => inGuest('echo f >/proc/sysrq-trigger'),
      // Node.js 24 calls its main thread MainThread, 26 node-MainThread. User-Mode Linux may fail
      // itself while it kills the agent.
      reason:
        /its kernel ended with "(Out of memory: Killed process \d+ \((node|MainThread|node-MainThread)\)|Kernel panic - not syncing: Kernel mode fault)[^\n"]*"/,
      log: ['console.log', /reboot: Power down|Kernel mode fault/],
    },
    {
      how: 'SIGKILL from outside',
      end: async () => {
        const all = kernels()
        const [main] = all.find(([, parent]) => !all.some(([pid]) => pid === parent)) ?? []
        process.kill(main ?? Number.NaN, 'SIGKILL')
      },
      reason: 'its kernel ended with SIGKILL: another process',
      log: ['console.log', /ended with status 137/],
    },
    {
      how: 'the end of its daemon',
      end: async () => process.kill(daemonOf(cluster.name) ?? Number.NaN, 'SIGKILL'),
      reason: 'its daemon was killed, or this machine was restarted',
      log: ['daemon.log', /^/],
    },
  ] as const

  test.each(ends)('$how', async ({ end, reason, log }) => {
    await cluster.up(progress)
    await Promise.all([end().catch(() => {}), ended()])
    await expect.poll(kernels).toEqual([])
    await expectNote([notUp(cluster).message], reason, log)
  })

  test('a cluster that is stopped leaves no note', async () => {
    await cluster.down(progress)
    expect(existsSync(folder)).toBe(false)
    expect((await run('status', [])).output.trim()).toBe(
      `The cluster "${cluster.name}" is not up: run \`make up\`.`,
    )
  })

  test('a kernel that hangs after its boot ends the start at its deadline, and nothing is left', async () => {
    // A few times what a start takes here, of the deadline of 180 s.
    const scale = Math.max(0.1, (3 * startMs) / 180_000)
    vi.stubEnv('LAB_TIMEOUT_SCALE', `${scale}`)
    const start = (text: string) => {
      if (text.startsWith('Creating the network')) hang()
    }
    await expect(cluster.up({ ...progress, start })).rejects.toThrow(
      /^The cluster was not ready within \d+ s\. The console/,
    )
    await ended()
    await expect.poll(kernels).toEqual([])
  })

  test.each([
    { how: 'a signal', end: () => process.kill(daemonOf(cluster.name) ?? Number.NaN, 'SIGTERM') },
    { how: 'the removal of its folder', end: () => rmSync(folder, { recursive: true }) },
  ])('a cluster that hangs is ended by $how, and nothing is left', async ({ end }) => {
    await cluster.up(progress)
    const daemon = Number(daemonOf(cluster.name))
    hang()
    end()
    await waitFor('the daemon to end', 15_000, async () => processStartTime(daemon) === undefined)
    await expect.poll(kernels).toEqual([])
  })

  test('a cluster ends with the process that it was started for', async () => {
    const owner = spawn('sleep', ['600'])
    vi.stubEnv('CLUSTER_OWNER', `${owner.pid}`)
    await cluster.up(progress)
    owner.kill('SIGKILL')
    await ended()
    await expect.poll(kernels).toEqual([])
    expect(existsSync(folder)).toBe(false)
  })

  test('a kernel that cannot boot is reported in one sentence that names its console', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'panic-'))
    const packages = await ensurePackages(cacheFolder, silent)
    const options = { packages, directory, name: `panic-${process.pid}`, memoryMegabytes: 16 }
    await expect(startMachine(options)).rejects.toThrow(
      // Which of its allocations fails first is the host's layout of memory to decide.
      /^The embedded kernel did not start: it ended with (exit code 1; its console ends with "Too few physical memory!|"Kernel panic - not syncing: Failed to allocate )[^"\n]+"\. Its console is in "[^\n]+"\.$/,
    )
    expect(readFileSync(join(directory, 'console.log'), 'utf8')).toMatch(
      /Too few physical memory!|Failed to allocate/,
    )
    rmSync(directory, { recursive: true })
  })
})
