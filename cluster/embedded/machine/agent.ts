// The program that runs inside the guest: starts processes, writes files and carries connections for the host.
// It is bundled to one file and started by the init script with the serial line's device as its argument.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { dirname } from 'node:path'
import { ReadStream, WriteStream } from 'node:tty'
import { encodeData, encodeFrame, type Frame, FrameDecoder, FrameType } from './frame.ts'
import { type SpawnRequest, spawnArguments } from './placement.ts'

const line = process.argv[2] ?? '/dev/ttyS0'
const input = new ReadStream(openSync(line, 'r'))
input.setRawMode(true)
const output = new WriteStream(openSync(line, 'w'))
output.setMaxListeners(0)
const processes = new Map<number, ChildProcess>()
const connections = new Map<number, Socket>()
// The host numbers its own streams from 1; connections that begin here count from the other half.
let nextConnection = 0x8000_0000

function send(stream: number, type: number, payload: Uint8Array | string = ''): void {
  output.write(encodeFrame(stream, type, payload))
}

function fail(stream: number, error: unknown): void {
  send(stream, FrameType.error, error instanceof Error ? error.message : String(error))
}

/** Carries a stream's bytes to the host and stops reading while the serial line is full. */
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

function start(stream: number, request: SpawnRequest): void {
  const [program = '', ...rest] = spawnArguments(request, terminalFile(stream))
  const child = spawn(program, rest, {
    cwd: request.cwd ?? '/',
    env: { ...process.env, ...request.env },
    detached: true,
    stdio: 'pipe',
  })
  processes.set(stream, child)
  child.on('spawn', () => send(stream, FrameType.started, JSON.stringify({ pid: child.pid })))
  child.on('error', (error) => {
    if (child.pid !== undefined) return
    processes.delete(stream)
    fail(stream, error)
  })
  child.stdin.on('error', () => {})
  pump(stream, FrameType.data, child.stdout)
  pump(stream, FrameType.errorData, child.stderr)
  child.on('exit', (code, signal) => {
    processes.delete(stream)
    if (request.tty) rmSync(terminalFile(stream), { force: true })
    afterOutput(child, () => send(stream, FrameType.exit, JSON.stringify({ code, signal })))
  })
}

const quietMs = 200

/** Calls back when both outputs are closed, or silent: what a command leaves in the background may hold them for ever. */
function afterOutput(child: ChildProcess, done: () => void): void {
  const timer = setTimeout(finish, quietMs)
  function finish() {
    clearTimeout(timer)
    child.removeAllListeners('close')
    done()
  }
  child.on('close', finish)
  child.stdout?.on('data', () => timer.refresh())
  child.stderr?.on('data', () => timer.refresh())
}

function kill(stream: number, signal: NodeJS.Signals): void {
  const pid = processes.get(stream)?.pid
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // The group is gone already: its exit frame is on the way.
  }
}

function resize(stream: number, columns: number, rows: number): void {
  try {
    const terminal = readFileSync(terminalFile(stream), 'utf8').trim()
    execFile('stty', ['-F', terminal, 'cols', String(columns), 'rows', String(rows)], () => {})
  } catch {
    // Asked before the terminal was there; whoever has a terminal sends its size again when it changes.
  }
}

function write(stream: number, payload: Buffer): void {
  const zero = payload.indexOf(0)
  const { path, mode } = JSON.parse(payload.toString('utf8', 0, zero)) as { path: string; mode?: number }
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, payload.subarray(zero + 1), mode === undefined ? {} : { mode })
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
  const target = processes.get(stream)?.stdin ?? connections.get(stream)
  switch (type) {
    case FrameType.spawn:
      start(stream, JSON.parse(payload.toString()) as SpawnRequest)
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
  for (const frame of decoder.push(bytes))
    try {
      handle(frame)
    } catch (error) {
      fail(frame.stream, error)
    }
})
// The host is gone: without it this kernel has no purpose.
input.on('end', () => process.exit(0))
input.on('error', () => process.exit(1))
send(0, FrameType.ready, JSON.stringify({ version: 1 }))
