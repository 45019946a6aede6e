// The program that runs inside the guest: starts processes, writes files and carries connections for the host.
// It is bundled to one file and started by the init script with the serial line's device as its argument, or with descriptors 3
// and 4 to and from the host.
import { execFile } from 'node:child_process'
import { mkdirSync, openSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, Socket } from 'node:net'
import { dirname } from 'node:path'
import type { Writable } from 'node:stream'
import { ReadStream, WriteStream } from 'node:tty'
import { encodeFrame, FrameDecoder, FrameType, pump, writeData } from './agent-line.ts'
import { FifoPool, outputEnded } from './fifo-pool.ts'
import {
  type ProcessEnd,
  processEnd,
  type ScriptRequest,
  type SpawnRequest,
  spawnArguments,
} from './machine.ts'
import { ScriptPool } from './script-shell.ts'

// The environment that every program expects, set here to avoid starting processes for it.
for (const folder of ['/dev/shm', '/run/netns', '/run/lock']) mkdirSync(folder)
symlinkSync('/proc/self/fd', '/dev/fd')
for (const [number, name] of ['stdin', 'stdout', 'stderr'].entries())
  symlinkSync(`/proc/self/fd/${number}`, `/dev/${name}`)

const line = process.argv[2]
const terminal = line === undefined ? undefined : new ReadStream(openSync(line, 'r'))
terminal?.setRawMode(true)
const input = terminal ?? new Socket({ fd: 3, readable: true, writable: false })
const output =
  line === undefined
    ? new Socket({ fd: 4, readable: false, writable: true })
    : new WriteStream(openSync(line, 'w'))
output.setMaxListeners(0)
const pipes = new FifoPool('/run/agent-pipes')
// Processes do not inherit the environment, which contains values from the kernel's command line.
const environment: NodeJS.ProcessEnv = {}
for (const name of ['PATH', 'HOME', 'TERM', 'UV_USE_IO_URING'])
  environment[name] = process.env[name]
// Bash treats a socket on its standard input as a connection of rshd and reads ~/.bashrc, but only as the outermost shell.
environment.SHLVL = '1'
const pool = new ScriptPool(pipes, environment)

/** What the host can do with a stream. */
interface Stream {
  input?: Writable | null
  kill?(signal: NodeJS.Signals): void
  close?(): void
}

const streams = new Map<number, Stream>()
// The host numbers its streams from 1; connections from the guest use the upper half of the range.
let nextConnection = 0x8000_0000

function sendFrame(stream: number, type: number, payload: Uint8Array | string = ''): void {
  output.write(encodeFrame(stream, type, payload))
}

function sendError(stream: number, error: unknown): void {
  sendFrame(stream, FrameType.error, error instanceof Error ? error.message : String(error))
}

/** The last frame of a process. */
const exited = (stream: number, end: ProcessEnd) =>
  sendFrame(stream, FrameType.exit, JSON.stringify(end))

const terminalFile = (stream: number) => `/run/terminal-${stream}`

/** The first process of a container: the only child of the process that waits for it. */
function firstChild(pid: number): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')
  if (!children[0]) throw new Error(`process ${pid} has no child`)
  return Number(children[0])
}

function start(stream: number, request: SpawnRequest): void {
  const placed =
    request.childOf === undefined ? request : { ...request, pid: firstChild(request.childOf) }
  // Only interactive commands get a UTF-8 locale, because a program reads ten files to load it.
  const env = { ...environment, ...(request.tty ? { LANG: 'C.UTF-8' } : {}), ...request.env }
  const command = spawnArguments(placed, terminalFile(stream))
  const { child, stdout, stderr } = pipes.spawn(command, env, request.noInput ? 'ignore' : 'pipe')
  const kill = (signal: NodeJS.Signals) => {
    try {
      if (child.pid === undefined) return
      // The command of a container only waits for the container's first process, and `script` for the command.
      const waiting = request.container && request.tty ? firstChild(child.pid) : child.pid
      process.kill(request.container ? firstChild(waiting) : -waiting, signal)
    } catch {
      // It has already ended: its exit frame follows.
    }
  }
  streams.set(stream, { input: child.stdin, kill })
  child.on('spawn', () => sendFrame(stream, FrameType.started, JSON.stringify({ pid: child.pid })))
  child.on('error', (error) => {
    if (child.pid !== undefined) return
    streams.delete(stream)
    sendError(stream, error)
  })
  pump(output, stream, FrameType.data, stdout.output)
  pump(output, stream, FrameType.errorData, stderr.output)
  child.on('exit', async (code, signal) => {
    streams.delete(stream)
    if (request.tty) rmSync(terminalFile(stream), { force: true })
    await outputEnded([stdout, stderr])
    exited(stream, processEnd(code, signal))
  })
}

async function runScript(stream: number, { script, ...place }: ScriptRequest): Promise<void> {
  const { shell, result } = pool.run(place, script)
  streams.set(stream, { kill: (signal) => shell.kill(signal) })
  sendFrame(stream, FrameType.started, JSON.stringify({ pid: shell.pid }))
  const { exitCode, stdout, stderr } = await result
  streams.delete(stream)
  writeData(output, stream, FrameType.data, stdout)
  writeData(output, stream, FrameType.errorData, stderr)
  exited(stream, { exitCode })
}

let resizing = Promise.resolve()

/** Sets sizes one after the other: `kubectl attach` sends two in a row, and the last one must win. */
function resize(stream: number, columns: number, rows: number): void {
  const set = (done: () => void) => {
    const terminal = readFileSync(terminalFile(stream), 'utf8').trim()
    execFile('stty', ['-F', terminal, 'cols', String(columns), 'rows', String(rows)], done)
  }
  // The terminal may have ended, or may not exist yet: it starts with its size.
  resizing = resizing.then(() => new Promise<void>(set)).catch(() => {})
}

function write(stream: number, payload: Buffer): void {
  const zero = payload.indexOf(0)
  const { path, mode } = JSON.parse(payload.toString('utf8', 0, zero)) as {
    path: string
    mode?: number
  }
  mkdirSync(path.endsWith('/') ? path : dirname(path), { recursive: true })
  if (!path.endsWith('/'))
    writeFileSync(path, payload.subarray(zero + 1), mode === undefined ? {} : { mode })
  sendFrame(stream, FrameType.done)
}

function forward(stream: number, socketPath: string): void {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const connection = nextConnection++
    streams.set(connection, { input: socket, close: () => socket.destroy() })
    sendFrame(connection, FrameType.opened)
    pump(output, connection, FrameType.data, socket)
    socket.on('end', () => sendFrame(connection, FrameType.end))
    socket.on('error', () => socket.destroy())
    socket.on('close', () => {
      if (streams.delete(connection)) sendFrame(connection, FrameType.exit)
    })
  })
  server.on('error', (error) => sendError(stream, error))
  server.listen(socketPath, () => sendFrame(stream, FrameType.done))
}

const handlers: Record<number, (stream: number, payload: Buffer) => void> = {
  [FrameType.spawn]: (stream, payload) => start(stream, JSON.parse(payload.toString())),
  [FrameType.script]: (stream, payload) => void runScript(stream, JSON.parse(payload.toString())),
  [FrameType.kill]: (stream, payload) =>
    streams.get(stream)?.kill?.(JSON.parse(payload.toString()).signal),
  [FrameType.resize](stream, payload) {
    const { columns, rows } = JSON.parse(payload.toString()) as { columns: number; rows: number }
    resize(stream, columns, rows)
  },
  [FrameType.write]: write,
  [FrameType.forward]: (stream, payload) => forward(stream, JSON.parse(payload.toString()).socket),
  [FrameType.data]: (stream, payload) => streams.get(stream)?.input?.write(payload),
  [FrameType.end]: (stream) => streams.get(stream)?.input?.end(),
  [FrameType.exit]: (stream) => streams.get(stream)?.close?.(),
}

const decoder = new FrameDecoder()
input.on('data', (bytes: Buffer) => {
  const count = Buffer.alloc(4)
  count.writeUInt32BE(bytes.length)
  sendFrame(0, FrameType.acknowledge, count)
  for (const { stream, type, payload } of decoder.push(bytes))
    try {
      handlers[type]?.(stream, payload)
    } catch (error) {
      sendError(stream, error)
    }
})
// The host process has ended, so this kernel ends too.
input.on('end', () => process.exit(0))
input.on('error', () => process.exit(1))
sendFrame(0, FrameType.ready)
