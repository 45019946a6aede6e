// Clients of one cluster that are stopped (Ctrl-S, SIGSTOP) or killed: they cost the daemon
// nothing, and the others go on.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { $ } from 'zx'
import { EmbeddedCluster } from '../../cluster/embedded.ts'
import { kubectlPath } from '../../cluster/programs.ts'
import { hostKernelTrouble, KERNELS, readDaemonState } from '../../embedded/index.ts'
import { silent } from '../../host/progress.ts'
import { runOn } from './quick-kernel.ts'

const kernels = KERNELS.filter((kernel) => kernel === 'uml' || !hostKernelTrouble())

/**
 * What each stopped client may have made the daemon keep: windows, buffers, and what V8 has not yet
 * collected.
 */
const ALLOWED_MB = 150
/**
 * What another client reads in the meantime. A client that is not slowed down would have sent
 * hundreds of MB.
 */
const READ_MB = 96

describe.each(kernels)('on kernel %s', (kernel) => {
  const cluster = new EmbeddedCluster(`stopped-${kernel}-${process.pid}`)
  runOn(kernel)
  let program: string
  const started: ChildProcess[] = []
  const env = { ...process.env, KUBECONFIG: cluster.kubeconfig }
  const kubectl = (...args: string[]) => $({ env, quiet: true })`${program} ${args}`.text()
  const start = (argv: readonly string[]) => {
    const child = spawn(program, argv, { env, stdio: ['pipe', 'pipe', 'pipe'] })
    started.push(child)
    return child
  }
  /** Starts a client and stops it when its first output has arrived, which is never read. */
  async function stopped(...terms: string[]): Promise<void> {
    const child = start(terms)
    await once(child.stdout, 'readable')
    child.kill('SIGSTOP')
  }
  const daemonMegabytes = () => {
    const pid = readDaemonState(cluster.name)?.pid
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024
  }
  /** The bytes that a command prints in a Pod, as an ordinary client gets them. */
  const countBytes = async (script: string) => {
    let bytes = 0
    const child = start(['exec', 'quiet', '--', 'sh', '-c', script])
    child.stdout.on('data', (part: Buffer) => {
      bytes += part.length
    })
    const [code] = await once(child, 'close')
    expect(code).toBe(0)
    return bytes
  }

  beforeAll(async () => {
    await cluster.up(silent)
    program = await kubectlPath(silent)
    await kubectl('run', 'quiet', '--image=busybox:1.36', '--', 'sleep', '3600')
    await kubectl('run', 'loud', '--image=busybox:1.36', '--', 'sh', '-c', 'sleep 2; exec yes')
    await kubectl('wait', 'pod', '--all', '--for=condition=Ready', '--timeout=120s')
  })
  afterEach(() => {
    for (const child of started.splice(0)) child.kill('SIGKILL')
  })
  afterAll(() => cluster.down(silent))

  test.each([
    ['exec', ['exec', 'quiet', '--', 'yes']],
    ['exec with errors', ['exec', 'quiet', '--', 'sh', '-c', 'yes | tee /dev/stderr']],
    ['attach', ['attach', 'loud']],
    ['logs', ['logs', 'loud']],
    ['followed logs with times', ['logs', '-f', '--timestamps', 'loud']],
  ])(
    'a stopped client of %s costs the daemon nothing, and another one goes on',
    async (_, parts) => {
      await countBytes('head -c 4M /dev/zero')
      const before = daemonMegabytes()
      await stopped(...parts)
      expect(await countBytes(`head -c ${READ_MB}M /dev/zero`)).toBe(READ_MB * 1024 * 1024)
      expect(daemonMegabytes() - before).toBeLessThan(ALLOWED_MB)
    },
  )

  test('a command that reads no input stops its client, and what it prints still arrives', async () => {
    const child = start([
      'exec',
      '-i',
      'quiet',
      '--',
      'sh',
      '-c',
      'sleep 3; echo still here; exit 3',
    ])
    child.stdin.on('error', () => {})
    let taken = 0
    const zeros = Buffer.alloc(1024 * 1024)
    const write = () => {
      taken += zeros.length
      if (!child.stdin.destroyed) child.stdin.write(zeros, (error) => error || write())
    }
    write()
    const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close')])
    expect(output).toBe('still here\n')
    expect(code).toBe(3)
    // Windows and the buffers of kubectl, pipes and TCP.
    expect(taken).toBeLessThan(64 * 1024 * 1024)
  })

  const sleepers = async (seconds: string) =>
    (
      await kubectl('exec', 'quiet', '--', 'sh', '-c', `pgrep -f '[s]leep ${seconds}' || true`)
    ).trim()

  test.each([
    ['with input that it does not read', '4321', ['-i'], (script: string) => script],
    [
      'on a terminal, and ignores SIGHUP',
      '4322',
      ['-it'],
      (script: string) => `trap '' HUP; ${script}`,
    ],
    [
      'on a terminal, in a job that ignores SIGHUP',
      '4323',
      ['-it'],
      (script: string) => `set -m; nohup ${script} & wait`,
    ],
  ])('a command %s ends with its killed client', async (_, seconds, options, scriptOf) => {
    const script = scriptOf(`sleep ${seconds}`)
    const typedArgs = ['exec', ...options, 'quiet', '--', 'sh', '-c', `${script}; true`]
    const line = [program, ...typedArgs]
      .map((word) => `'${word.replaceAll("'", `'\\''`)}'`)
      .join(' ')
    const child = options.includes('-it')
      ? spawn('script', ['-qec', `exec ${line}`, '/dev/null'], {
          env,
          stdio: ['pipe', 'pipe', 'pipe'],
        })
      : start(typedArgs)
    started.push(child)
    child.stdin?.on('error', () => {})
    if (!options.includes('-it')) child.stdin?.write(Buffer.alloc(32 * 1024 * 1024))
    await expect.poll(() => sleepers(seconds)).not.toBe('')
    child.kill('SIGKILL')
    await expect.poll(() => sleepers(seconds)).toBe('')
  })
})
