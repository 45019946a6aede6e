import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { closeSync, constants, mkdirSync, openSync, readSync } from 'node:fs'
import { Socket } from 'node:net'
import { join } from 'node:path'

const { O_RDONLY, O_WRONLY, O_NONBLOCK } = constants

/** One pipe between the agent and a process: the process's end is a descriptor that is passed on and then closed. */
export interface Pipe {
  readonly ours: Socket
  readonly theirs: number
  /** Emits the current content of the pipe as data of `ours`. Returns false if it was empty. */
  flush(): boolean
}

/** A process whose outputs are in pipes of a FifoPool. */
export interface PipedProcess {
  child: ChildProcess
  stdout: Pipe
  stderr: Pipe
}

/** The capacity of a pipe (pipe(7)), so that one read gets everything that an ended process left in it. */
const PIPE_BYTES = 64 * 1024
const quietMs = 200

/**
 * Calls back when all output of an ended process has been emitted: when its pipes end, or are empty after some time without
 * output, because background processes may keep them open. Such pipes are no longer read.
 */
export function afterOutput(pipes: readonly Pipe[], done: () => void): void {
  const open = new Set(pipes.filter(({ ours }) => !ours.readableEnded))
  let timer: NodeJS.Timeout | undefined
  const finish = () => {
    clearTimeout(timer)
    for (const { ours } of pipes) {
      ours.removeAllListeners('data')
      ours.resume()
    }
    done()
  }
  // This process or a reader may also have been busy, so the pipes themselves are checked.
  const look = () => {
    const found = [...open].map((pipe) => pipe.flush())
    if (found.includes(true)) timer = setTimeout(look, quietMs)
    else finish()
  }
  if (open.size === 0) {
    finish()
    return
  }
  timer = setTimeout(look, quietMs)
  for (const pipe of open) {
    pipe.ours.on('data', () => timer?.refresh())
    pipe.ours.once('end', () => {
      open.delete(pipe)
      if (open.size === 0) finish()
    })
  }
}

const batchSize = 48

/**
 * Real pipes for the output of processes. Node's own are sockets, on which a program that opens /dev/stdout fails (ENXIO).
 * FIFOs are created in batches, because starting a process is slow here. (Standard input stays a socket: opening /dev/stdin
 * blocks when it is a FIFO whose writer has closed it.)
 */
export class FifoPool {
  private readonly folder: string
  private free: string[] = []
  private made = 0

  constructor(folder: string) {
    this.folder = folder
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  }

  /** Starts a process in a process group of its own, with its outputs in pipes. */
  spawn(command: readonly string[], env: NodeJS.ProcessEnv, stdin: 'pipe' | 'ignore'): PipedProcess {
    const [program = '', ...words] = command
    const [stdout, stderr] = [this.output(), this.output()]
    const stdio = [stdin, stdout.theirs, stderr.theirs] as const
    const child = spawn(program, words, { cwd: '/', env, detached: true, stdio: [...stdio] })
    for (const { theirs } of [stdout, stderr]) closeSync(theirs)
    child.stdin?.on('error', () => {})
    return { child, stdout, stderr }
  }

  /** A pipe for the output of a process. */
  output(): Pipe {
    const path = this.take()
    const read = openSync(path, O_RDONLY | O_NONBLOCK)
    const theirs = openSync(path, O_WRONLY)
    const ours = new Socket({ fd: read, readable: true, writable: false })
    // Another process may get this FIFO only after the end of the stream, when its writing end is closed.
    ours.once('end', () => this.free.push(path))
    return { ours, theirs, flush: () => flush(ours, read) }
  }

  private take(): string {
    if (this.free.length === 0) {
      this.free = Array.from({ length: batchSize }, (_, index) => join(this.folder, String(this.made + index)))
      this.made += batchSize
      execFileSync('mkfifo', this.free)
    }
    const path = this.free.pop()
    if (path === undefined) throw new Error('no pipe could be created')
    return path
  }
}

function flush(ours: Socket, descriptor: number): boolean {
  if (ours.readableEnded || ours.destroyed) return false
  const bytes = Buffer.alloc(PIPE_BYTES)
  let count = 0
  try {
    count = readSync(descriptor, bytes)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
  }
  if (count > 0) ours.push(bytes.subarray(0, count))
  let found = count > 0
  while (ours.read() !== null) found = true
  return found
}
