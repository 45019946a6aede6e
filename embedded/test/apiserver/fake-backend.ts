import { spawn, spawnSync } from 'node:child_process'
import { PassThrough, Readable } from 'node:stream'
import type { ExecRequest, LogRequest, NodeBackend } from '../../apiserver/api-call.ts'
import { type GuestProcess, processEnd } from '../../machine/machine.ts'

export interface FakeBackend extends NodeBackend {
  execs: ExecRequest[]
  /** The processes of `execs` that have been started. */
  processes: GuestProcess[]
  logRequests: LogRequest[]
  resizes: [number, number][]
  /** The log that is being followed, to write to. */
  following: PassThrough | undefined
}

/** Runs exec commands and node scripts as ordinary processes of the host and serves a fixed log. */
export function createFakeBackend(): FakeBackend {
  const backend: FakeBackend = {
    execs: [],
    processes: [],
    logRequests: [],
    resizes: [],
    following: undefined,
    exec(request) {
      backend.execs.push(request)
      return async (size) => {
        if (size) backend.resizes.push([size.columns, size.rows])
        const process = hostProcess(request.command, backend.resizes)
        backend.processes.push(process)
        return process
      }
    },
    attach: () => async () => hostProcess(['cat'], backend.resizes),
    dial: () => async (port) => hostProcess(['socat', '-', `TCP4:127.0.0.1:${port}`], []),
    usage: async () => ({ seconds: 1, nodes: new Map(), pods: new Map() }),
    async script(node, text) {
      const { status, stdout, stderr } = spawnSync('sh', ['-c', text, node], { encoding: 'utf8' })
      return { exitCode: status ?? 137, stdout, stderr }
    },
    async synced() {},
    async logs(request) {
      backend.logRequests.push(request)
      const lines = ['one\n', 'two\n', 'three\n'].slice(-(request.tailLines ?? 3))
      if (!request.follow) return Readable.from(lines)
      backend.following = new PassThrough()
      for (const line of lines) backend.following.write(line)
      return backend.following
    },
  }
  return backend
}

function hostProcess([program = '', ...args]: string[], resizes: [number, number][]): GuestProcess {
  const child = spawn(program, args, { stdio: 'pipe' })
  return {
    pid: child.pid ?? 0,
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    exited: new Promise((resolve, reject) => {
      child.on('error', reject)
      child.on('close', (code, signal) => resolve(processEnd(code, signal)))
    }),
    kill: (signal) => child.kill(signal as NodeJS.Signals),
    resize: (columns, rows) => resizes.push([columns, rows]),
  }
}
