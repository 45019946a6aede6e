import { execFileSync } from 'node:child_process'
import { constants, mkdirSync, openSync, readSync } from 'node:fs'
import { Socket } from 'node:net'
import { join } from 'node:path'

const { O_RDONLY, O_WRONLY, O_NONBLOCK } = constants

/** One pipe between the agent and a process: the process' end is a descriptor to be handed over and then closed. */
export interface Pipe {
  readonly ours: Socket
  readonly theirs: number
  /** Gives out at once, as data of `ours`, what the pipe holds at this moment. False: it was empty. */
  flush(): boolean
}

/** pipe(7): what one holds, so that one read takes all that an ended process left in it. */
const PIPE_BYTES = 64 * 1024
const quietMs = 200

/**
 * Calls back once all has been given out that the writer of these pipes, which has ended, wrote: when they end, or are empty after
 * some silence, as what a command leaves in the background may hold them open without end. Of those pipes nothing is read then.
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
  // Silence may also be this process's, or that of a reader that is busy: the pipes themselves are asked.
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
 * Real pipes for what processes print. Node's own are sockets, on which a program that opens /dev/stdout fails (ENXIO).
 * FIFOs are made in bulk, because starting a process is slow here. (Standard input stays a socket: opening /dev/stdin
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

  /** A pipe the process writes to. */
  output(): Pipe {
    const path = this.take()
    const read = openSync(path, O_RDONLY | O_NONBLOCK)
    const theirs = openSync(path, O_WRONLY)
    const ours = new Socket({ fd: read, readable: true, writable: false })
    // At the end of the stream nobody holds the writing end any more: only then may another process get this FIFO.
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
    if (path === undefined) throw new Error('no pipe could be made')
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
