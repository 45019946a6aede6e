import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { closeSync, constants, mkdirSync, openSync, readSync } from 'node:fs'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { PassThrough, type Readable } from 'node:stream'
import { finished } from 'node:stream/promises'

const { O_RDONLY, O_WRONLY, O_NONBLOCK } = constants

/**
 * One pipe between the agent and a process: the process's end is a descriptor that is passed on and
 * then closed.
 */
export interface Pipe {
  readonly theirs: number
  /** What is written into the pipe. */
  readonly output: Readable
  /**
   * Ends `output` after everything that was written so far. What background processes write later
   * is read, but discarded.
   */
  finish(): void
}

/** A process whose outputs are in pipes of a FifoPool. */
export interface PipedProcess {
  child: ChildProcess
  stdout: Pipe
  stderr: Pipe
}

/** The capacity of a pipe (pipe(7)). */
const PIPE_BYTES = 64 * 1024
/**
 * The time that background processes of an ended process have to write into its pipes, which they
 * may keep open.
 */
const graceMs = 200

/** Resolves when all output of an ended process was read from its pipes. */
export async function outputEnded(pipes: readonly Pipe[]): Promise<void> {
  const timer = setTimeout(() => {
    for (const pipe of pipes) pipe.finish()
  }, graceMs)
  await Promise.all(pipes.map(({ output }) => finished(output)))
  clearTimeout(timer)
}

const batchSize = 48

/**
 * Real pipes for the output of processes. Node's own are sockets, on which a program that opens
 * /dev/stdout fails (ENXIO). FIFOs are created in batches, because starting a process is slow here.
 * (Standard input stays a socket: opening /dev/stdin blocks when it is a FIFO whose writer has
 * closed it.)
 */
export class FifoPool {
  readonly #folder: string
  #free: string[] = []
  #made = 0

  constructor(folder: string) {
    this.#folder = folder
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  }

  /** Starts a process in a process group of its own, with its outputs in pipes. */
  spawn(
    command: readonly string[],
    env: NodeJS.ProcessEnv,
    stdin: 'pipe' | 'ignore',
  ): PipedProcess {
    const [program = '', ...args] = command
    const [stdout, stderr] = [this.output(), this.output()]
    const stdio = [stdin, stdout.theirs, stderr.theirs] as const
    const child = spawn(program, args, { cwd: '/', env, detached: true, stdio: [...stdio] })
    for (const { theirs } of [stdout, stderr]) closeSync(theirs)
    child.stdin?.on('error', () => {})
    return { child, stdout, stderr }
  }

  /** A pipe for the output of a process. */
  output(): Pipe {
    const path = this.#take()
    const read = openSync(path, O_RDONLY | O_NONBLOCK)
    const theirs = openSync(path, O_WRONLY)
    const ours = new Socket({ fd: read, readable: true, writable: false })
    const output = new PassThrough()
    ours.pipe(output)
    // Another process may get this FIFO only after the end of the stream, when its writing end is
    // closed.
    ours.once('end', () => this.#free.push(path))
    const finish = () => {
      if (output.writableEnded) return
      ours.unpipe(output)
      // This process may have been too busy to read.
      output.end(Buffer.concat([ours.read() ?? Buffer.alloc(0), readNow(read)]))
      ours.resume()
    }
    return { theirs, output, finish }
  }

  #take(): string {
    if (this.#free.length === 0) {
      this.#free = Array.from({ length: batchSize }, (_, index) =>
        join(this.#folder, String(this.#made + index)),
      )
      this.#made += batchSize
      execFileSync('mkfifo', this.#free)
    }
    const path = this.#free.pop()
    if (path === undefined) throw new Error('no pipe could be created')
    return path
  }
}

/** The content of a pipe. One read gets all of it. */
function readNow(descriptor: number): Buffer {
  const bytes = Buffer.alloc(PIPE_BYTES)
  try {
    return bytes.subarray(0, readSync(descriptor, bytes))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
    return bytes.subarray(0, 0)
  }
}
