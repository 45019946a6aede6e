import { execFileSync } from 'node:child_process'
import { constants, mkdirSync, openSync } from 'node:fs'
import { Socket } from 'node:net'
import { join } from 'node:path'

const { O_RDONLY, O_WRONLY, O_NONBLOCK } = constants

/** One pipe between the agent and a process: the process' end is a descriptor to be handed over and then closed. */
export interface Pipe {
  readonly ours: Socket
  readonly theirs: number
}

const madeAtOnce = 48

/**
 * Real pipes for what processes print. Node's own are sockets, on which a program that opens /dev/stdout fails (ENXIO).
 * FIFOs are made in bulk, because a process start is dear here. (Standard input stays a socket: a FIFO whose writer is
 * done blocks whoever opens /dev/stdin.)
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
    return { ours, theirs }
  }

  private take(): string {
    if (this.free.length === 0) {
      this.free = Array.from({ length: madeAtOnce }, (_, index) => join(this.folder, String(this.made + index)))
      this.made += madeAtOnce
      execFileSync('mkfifo', this.free)
    }
    const path = this.free.pop()
    if (path === undefined) throw new Error('no pipe could be made')
    return path
  }
}
