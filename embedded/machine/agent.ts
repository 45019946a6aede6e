// The program that runs inside the guest: starts processes, writes files and carries connections
// for the host. It is bundled to one file and started by the init script with the serial line's
// device as its argument, or with descriptors 3 and 4 to and from the host.
import { execFile } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, Socket } from 'node:net'
import { dirname } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { ReadStream, WriteStream } from 'node:tty'
import { creditPayload, encodeFrame, FrameDecoder, FrameType, readCredit } from './agent-line.ts'
import { FifoPool, outputEnded } from './fifo-pool.ts'
import {
  type GuestFile,
  type ProcessEnd,
  processEnd,
  type ScriptRequest,
  type SpawnRequest,
  spawnArguments,
} from './machine.ts'
import { ScriptPool } from './script-shell.ts'
import { pump, ReceiveWindow, SendWindow, sendWhole } from './stream-window.ts'

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
// Bash treats a socket on its standard input as a connection of rshd and reads ~/.bashrc, but only
// as the outermost shell.
environment.SHLVL = '1'
const pool = new ScriptPool(pipes, environment)

/** What the host can do with a stream. */
interface Stream {
  input?: Writable | null
  /** What was received for `input` and not yet written. */
  received?: ReceiveWindow
  /** How much more of each type of data may be sent. */
  windows?: ReadonlyMap<number, SendWindow>
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

/**
 * The process groups on a terminal (proc_pid_stat(5)): those of the session of its first process,
 * and of the one that `confine --terminal` begins as its child. A program that ignores the SIGHUP
 * of a closed terminal would go on after its client.
 */
function groupsOnTerminal(first: number): number[] {
  const sessions = [first, ...childrenOf(first)]
  const groups = new Set<number>()
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    try {
      // The name before these fields may contain any character.
      const [, group, session] = readFileSync(`/proc/${pid}/stat`, 'latin1')
        .replace(/^.*\) \S /s, '')
        .split(' ')
        .map(Number)
      if (session !== undefined && sessions.includes(session) && group) groups.add(group)
    } catch {
      // It has ended in the meantime.
    }
  return [...groups]
}

/**
 * What is signalled for a request whose first process is this: processes, and groups as negative
 * numbers (kill(2)).
 */
function killTargets(pid: number, { container, tty }: SpawnRequest): number[] {
  try {
    // The command of a container only waits for the container's first process, and `script` for the
    // command.
    const waiting = tty ? firstChild(pid) : pid
    if (container) return [firstChild(waiting)]
    return tty ? groupsOnTerminal(waiting).map((group) => -group) : [-pid]
  } catch {
    return container ? [] : [-pid]
  }
}

/** Carries outputs to the host, each with a window of its own. */
function carry(stream: number, outputs: readonly (readonly [number, Readable])[]) {
  const windows = new Map<number, SendWindow>()
  for (const [type, source] of outputs) {
    const window = new SendWindow()
    windows.set(type, window)
    pump({ line: output, stream, type, window }, source)
  }
  return windows
}

/** Counts what the host sends to a stream. */
const receiving = (stream: number) =>
  new ReceiveWindow((bytes) =>
    sendFrame(stream, FrameType.credit, creditPayload(FrameType.data, bytes)),
  )

const terminalFile = (stream: number) => `/run/terminal-${stream}`

const childrenOf = (pid: number) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .trim()
    .split(' ')
    .filter(Boolean)
    .map(Number)

/** The first process of a container: the only child of the process that waits for it. */
function firstChild(pid: number): number {
  const [child] = childrenOf(pid)
  if (child === undefined) throw new Error(`process ${pid} has no child`)
  return child
}

function start(stream: number, request: SpawnRequest): void {
  const placed =
    request.childOf === undefined ? request : { ...request, pid: firstChild(request.childOf) }
  // Only interactive commands get a UTF-8 locale, because a program reads ten files to load it.
  const env = { ...environment, ...(request.tty ? { LANG: 'C.UTF-8' } : {}), ...request.env }
  const command = spawnArguments(placed, terminalFile(stream))
  const { child, stdout, stderr } = pipes.spawn(command, env, request.noInput ? 'ignore' : 'pipe')
  const kill = (signal: NodeJS.Signals) => {
    for (const target of child.pid === undefined ? [] : killTargets(child.pid, request))
      try {
        process.kill(target, signal)
      } catch {
        // It has already ended: its exit frame follows.
      }
  }
  const windows = carry(stream, [
    [FrameType.data, stdout.output],
    [FrameType.errorData, stderr.output],
  ])
  streams.set(stream, { input: child.stdin, received: receiving(stream), windows, kill })
  child.on('spawn', () => sendFrame(stream, FrameType.started, JSON.stringify({ pid: child.pid })))
  child.on('error', (error) => {
    if (child.pid !== undefined) return
    streams.delete(stream)
    sendError(stream, error)
  })
  child.on('exit', async (code, signal) => {
    streams.set(stream, { windows })
    if (request.tty) rmSync(terminalFile(stream), { force: true })
    await outputEnded([stdout, stderr])
    streams.delete(stream)
    exited(stream, processEnd(code, signal))
  })
}

async function runScript(stream: number, { script, ...place }: ScriptRequest): Promise<void> {
  const { shell, result } = pool.run(place, script)
  streams.set(stream, { kill: (signal) => shell.kill(signal) })
  sendFrame(stream, FrameType.started, JSON.stringify({ pid: shell.pid }))
  const { exitCode, stdout, stderr } = await result
  const outputs = [
    { line: output, stream, type: FrameType.data, window: new SendWindow() },
    { line: output, stream, type: FrameType.errorData, window: new SendWindow() },
  ] as const
  streams.set(stream, { windows: new Map(outputs.map(({ type, window }) => [type, window])) })
  await Promise.all([sendWhole(outputs[0], stdout), sendWhole(outputs[1], stderr)])
  streams.delete(stream)
  exited(stream, { exitCode })
}

let resizing = Promise.resolve()

/**
 * Sets sizes one after the other: `kubectl attach` sends two in a row, and the last one must win.
 */
function resize(stream: number, columns: number, rows: number): void {
  const set = (done: () => void) => {
    const terminal = readFileSync(terminalFile(stream), 'utf8').trim()
    execFile('stty', ['-F', terminal, 'cols', String(columns), 'rows', String(rows)], done)
  }
  // The terminal may have ended, or may not exist yet: it starts with its size.
  resizing = resizing.then(() => new Promise<void>(set)).catch(() => {})
}

/**
 * Writes a file in the place of what is there: a reader gets its old content or the new one. Root
 * of a node or container may have put a pipe or a link there, and opening a pipe would stop this
 * program: only a new file is opened.
 */
function replaceFile(path: string, content: Buffer, options: { mode?: number }): void {
  const written = `${path}.new`
  rmSync(written, { recursive: true, force: true })
  writeFileSync(written, content, { ...options, flag: 'wx' })
  renameSync(written, path)
}

function write(stream: number, payload: Buffer): void {
  const zero = payload.indexOf(0)
  const { path, mode, ifMissing }: Omit<GuestFile, 'content'> = JSON.parse(
    payload.toString('utf8', 0, zero),
  )
  mkdirSync(path.endsWith('/') ? path : dirname(path), { recursive: true })
  if (!path.endsWith('/') && !(ifMissing && existsSync(path)))
    replaceFile(path, payload.subarray(zero + 1), mode === undefined ? {} : { mode })
  sendFrame(stream, FrameType.done)
}

function forward(stream: number, socketPath: string): void {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const connection = nextConnection++
    sendFrame(connection, FrameType.opened)
    const windows = carry(connection, [[FrameType.data, socket]])
    const received = receiving(connection)
    streams.set(connection, { input: socket, received, windows, close: () => socket.destroy() })
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
  [FrameType.data](stream, payload) {
    const { input, received } = streams.get(stream) ?? {}
    received?.receive(payload.length)
    // What a program no longer wants counts as read too.
    input?.write(payload, () => received?.read(payload.length))
  },
  [FrameType.credit](stream, payload) {
    const { type, bytes } = readCredit(payload)
    streams.get(stream)?.windows?.get(type)?.grant(bytes)
  },
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
