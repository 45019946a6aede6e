// The program that runs inside the guest: starts processes, writes files and carries connections for the host.
// It is bundled to one file and started by the init script with the serial line's device as its argument, or with descriptors 3
// and 4 to and from the host.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, Socket } from 'node:net'
import { dirname } from 'node:path'
import { ReadStream, WriteStream } from 'node:tty'
import { afterOutput, FifoPool } from './fifo-pool.ts'
import { encodeData, encodeFrame, type Frame, FrameDecoder, FrameType } from './frame.ts'
import { type ScriptRequest, type SpawnRequest, spawnArguments } from './placement.ts'
import { ScriptPool, type ScriptShell } from './script-shell.ts'

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
  line === undefined ? new Socket({ fd: 4, readable: false, writable: true }) : new WriteStream(openSync(line, 'w'))
output.setMaxListeners(0)
const pipes = new FifoPool('/run/agent-pipes')
// Processes do not inherit the environment, which contains values from the kernel's command line.
const environment: NodeJS.ProcessEnv = {}
for (const name of ['PATH', 'HOME', 'TERM', 'UV_USE_IO_URING']) environment[name] = process.env[name]
// Bash treats a socket on its standard input as a connection of rshd and reads ~/.bashrc, but only as the outermost shell.
environment.SHLVL = '1'
const pool = new ScriptPool(pipes, environment)

interface Running {
  child: ChildProcess
  /** The process is the first of a process namespace that the started command only waits for. */
  inNamespace: boolean
}

const processes = new Map<number, Running>()
const scripts = new Map<number, ScriptShell>()
const connections = new Map<number, Socket>()
// The host numbers its streams from 1; connections from the guest use the upper half of the range.
let nextConnection = 0x8000_0000

function send(stream: number, type: number, payload: Uint8Array | string = ''): void {
  output.write(encodeFrame(stream, type, payload))
}

function fail(stream: number, error: unknown): void {
  send(stream, FrameType.error, error instanceof Error ? error.message : String(error))
}

/** Sends a stream's bytes to the host and stops reading while the serial line is full. */
function pump(stream: number, type: number, source: NodeJS.ReadableStream): void {
  source.on('data', (bytes: Buffer) => {
    let room = true
    for (const frame of encodeData(stream, type, bytes)) room = output.write(frame)
    if (room) return
    source.pause()
    output.once('drain', () => source.resume())
  })
}

const terminalFile = (stream: number) => `/run/terminal-${stream}`

/** The first process of a namespace made by `unshare --fork`: the only child of the process that created it. */
function firstChild(pid: number): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')
  if (!children[0]) throw new Error(`process ${pid} has no child`)
  return Number(children[0])
}

function start(stream: number, request: SpawnRequest): void {
  const placed = request.childOf === undefined ? request : { ...request, pid: firstChild(request.childOf) }
  const [program = '', ...rest] = spawnArguments(placed, terminalFile(stream))
  const stdout = pipes.output()
  const stderr = pipes.output()
  const child = spawn(program, rest, {
    cwd: '/',
    // Only interactive commands get a UTF-8 locale, because a program reads ten files to load it.
    env: { ...environment, ...(request.tty ? { LANG: 'C.UTF-8' } : {}), ...request.env },
    detached: true,
    stdio: [request.noInput ? 'ignore' : 'pipe', stdout.theirs, stderr.theirs],
  })
  for (const pipe of [stdout, stderr]) closeSync(pipe.theirs)
  processes.set(stream, { child, inNamespace: request.inNamespace === true })
  child.on('spawn', () => send(stream, FrameType.started, JSON.stringify({ pid: child.pid })))
  child.on('error', (error) => {
    if (child.pid !== undefined) return
    processes.delete(stream)
    fail(stream, error)
  })
  child.stdin?.on('error', () => {})
  pump(stream, FrameType.data, stdout.ours)
  pump(stream, FrameType.errorData, stderr.ours)
  child.on('exit', (code, signal) => {
    processes.delete(stream)
    if (request.tty) rmSync(terminalFile(stream), { force: true })
    afterOutput([stdout, stderr], () => send(stream, FrameType.exit, JSON.stringify({ code, signal })))
  })
}

function sendAll(stream: number, type: number, bytes: Buffer): void {
  for (const frame of encodeData(stream, type, bytes)) output.write(frame)
}

function runScript(stream: number, { script, ...placement }: ScriptRequest): void {
  const shell = pool.run(placement, script, {
    stdout: (bytes) => sendAll(stream, FrameType.data, bytes),
    stderr: (bytes) => sendAll(stream, FrameType.errorData, bytes),
    exit(code) {
      scripts.delete(stream)
      send(stream, FrameType.exit, JSON.stringify({ code, signal: null }))
    },
  })
  scripts.set(stream, shell)
}

function kill(stream: number, signal: NodeJS.Signals): void {
  scripts.get(stream)?.kill(signal)
  const running = processes.get(stream)
  if (running?.child.pid === undefined) return
  try {
    process.kill(running.inNamespace ? firstChild(running.child.pid) : -running.child.pid, signal)
  } catch {
    // It has already ended: its exit frame follows.
  }
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
  const { path, mode } = JSON.parse(payload.toString('utf8', 0, zero)) as { path: string; mode?: number }
  mkdirSync(path.endsWith('/') ? path : dirname(path), { recursive: true })
  if (!path.endsWith('/')) writeFileSync(path, payload.subarray(zero + 1), mode === undefined ? {} : { mode })
  send(stream, FrameType.done)
}

function forward(stream: number, socketPath: string): void {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const connection = nextConnection++
    connections.set(connection, socket)
    send(connection, FrameType.opened, JSON.stringify({ forward: stream }))
    pump(connection, FrameType.data, socket)
    socket.on('end', () => send(connection, FrameType.end))
    socket.on('error', () => socket.destroy())
    socket.on('close', () => {
      if (connections.delete(connection)) send(connection, FrameType.exit)
    })
  })
  server.on('error', (error) => fail(stream, error))
  server.listen(socketPath, () => send(stream, FrameType.done))
}

function handle({ stream, type, payload }: Frame): void {
  const json = () => JSON.parse(payload.toString()) as Record<string, never>
  const target = processes.get(stream)?.child.stdin ?? connections.get(stream)
  switch (type) {
    case FrameType.spawn:
      start(stream, JSON.parse(payload.toString()) as SpawnRequest)
      break
    case FrameType.script:
      runScript(stream, JSON.parse(payload.toString()) as ScriptRequest)
      break
    case FrameType.kill:
      kill(stream, json().signal ?? 'SIGTERM')
      break
    case FrameType.resize:
      resize(stream, json().columns ?? 80, json().rows ?? 24)
      break
    case FrameType.write:
      write(stream, payload)
      break
    case FrameType.forward:
      forward(stream, json().socket ?? '')
      break
    case FrameType.data:
      target?.write(payload)
      break
    case FrameType.end:
      target?.end()
      break
    case FrameType.exit:
      connections.get(stream)?.destroy()
  }
}

const decoder = new FrameDecoder()
input.on('data', (bytes: Buffer) => {
  const count = Buffer.alloc(4)
  count.writeUInt32BE(bytes.length)
  send(0, FrameType.acknowledge, count)
  for (const frame of decoder.push(bytes))
    try {
      handle(frame)
    } catch (error) {
      fail(frame.stream, error)
    }
})
// The host process has ended, so this kernel ends too.
input.on('end', () => process.exit(0))
input.on('error', () => process.exit(1))
send(0, FrameType.ready)
