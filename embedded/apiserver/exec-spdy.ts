import type { IncomingMessage } from 'node:http'
import { type Duplex, PassThrough, Writable } from 'node:stream'
import { constants, createDeflate, createInflate } from 'node:zlib'
import { type ExecOptions, type ExecTransport, parseSize } from './exec-session.ts'
import { spdyDictionary } from './spdy-dictionary.ts'
import {
  controlFrame,
  controlType,
  dataFrame,
  FrameReader,
  fin,
  readHeaders,
  type SpdyFrame,
  uint32,
} from './spdy-frames.ts'
import { badRequest } from './status-error.ts'

// Remote commands over SPDY/3.1, as kubectl before 1.31 speaks it: each stream of the command is a SPDY stream that the
// client opens, named by its `streamtype` header.

const protocol = 'v4.channel.k8s.io'
const streamsTimeout = 30_000
const closeTimeout = 5_000

export function isSpdy(request: IncomingMessage): boolean {
  return (request.headers.upgrade ?? '').toLowerCase() === 'spdy/3.1'
}

/** Takes an upgrade over as SPDY and waits until the client has opened the streams of the command. */
export async function acceptSpdy(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  options: ExecOptions & { tty: boolean },
): Promise<ExecTransport> {
  const offered = request.rawHeaders.flatMap((name, index, all) =>
    index % 2 === 0 && name.toLowerCase() === 'x-stream-protocol-version' ? (all[index + 1] ?? '').split(/,\s*/) : [],
  )
  if (!offered.includes(protocol)) {
    throw badRequest(
      `unable to upgrade: the client offers the protocols "${offered.join(', ')}", this server ${protocol}`,
    )
  }
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: ${protocol}\r\n\r\n`,
  )
  const connection = new SpdyConnection(socket)
  connection.receive(head)
  const wanted = ['error', ...(['stdin', 'stdout', 'stderr'] as const).filter((stream) => options[stream])]
  await connection.opened(options.tty ? [...wanted, 'resize'] : wanted)
  return connection.transport(options)
}

class SpdyConnection {
  private readonly socket: Duplex
  private readonly reader = new FrameReader()
  private readonly inflate = createInflate({ dictionary: spdyDictionary, finishFlush: constants.Z_SYNC_FLUSH })
  private readonly deflate = createDeflate({ dictionary: spdyDictionary })
  private readonly streams = new Map<string, number>()
  private readonly inputs = new Map<number, PassThrough>()
  private work: Promise<void> = Promise.resolve()
  private onOpened = (): void => {}

  constructor(socket: Duplex) {
    this.socket = socket
    socket.on('data', (chunk: Buffer) => this.receive(chunk))
    socket.on('close', () => {
      for (const input of this.inputs.values()) input.end()
      this.inflate.close()
      this.deflate.close()
    })
  }

  /** Frames are handled one after the other: header blocks share one compression state. */
  receive(chunk: Buffer): void {
    if (chunk.length === 0) return
    this.work = this.work
      .then(async () => {
        for (const frame of this.reader.push(chunk)) await this.handle(frame)
      })
      .catch(() => {
        this.socket.destroy()
      })
  }

  /** Settles when the client has opened all these streams; rejects when it takes too long or goes away. */
  opened(types: readonly string[]): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (): void => {
        this.socket.destroy()
        reject(new Error(`the client did not open the streams ${types.join(', ')}`))
      }
      const timer = setTimeout(fail, streamsTimeout)
      this.socket.once('close', fail)
      this.onOpened = () => {
        if (!types.every((type) => this.streams.has(type))) return
        clearTimeout(timer)
        this.socket.off('close', fail)
        resolve()
      }
      this.onOpened()
    })
  }

  transport(options: ExecOptions): ExecTransport {
    const input = this.inputOf('stdin')
    const sizes = this.inputOf('resize')
    return {
      ...(options.stdin && input && { stdin: input }),
      ...(options.stdout && { stdout: this.output('stdout') }),
      ...(options.stderr && { stderr: this.output('stderr') }),
      onResize: (listener) => {
        sizes?.on('data', (chunk: Buffer) => {
          for (const line of String(chunk).split('\n')) {
            const size = parseSize(line)
            if (size) listener(...size)
          }
        })
      },
      onGone: (listener) => {
        this.socket.on('close', listener)
      },
      finish: (status) => {
        const stream = this.streams.get('error') ?? 0
        this.socket.write(dataFrame(stream, Buffer.from(JSON.stringify(status)), fin))
        // The client closes when it has read everything; one that doesn't is closed.
        const timer = setTimeout(() => this.socket.end(), closeTimeout)
        this.socket.once('close', () => clearTimeout(timer))
      },
    }
  }

  private inputOf(type: string): PassThrough | undefined {
    return this.inputs.get(this.streams.get(type) ?? 0)
  }

  private output(type: string): Writable {
    const stream = this.streams.get(type) ?? 0
    return new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        if (this.socket.writable) this.socket.write(dataFrame(stream, chunk), () => done())
        else done()
      },
      final: (done) => {
        if (this.socket.writable) this.socket.write(dataFrame(stream, Buffer.alloc(0), fin))
        done()
      },
    })
  }

  private async handle(frame: SpdyFrame): Promise<void> {
    if (frame.is === 'data') {
      const input = this.inputs.get(frame.stream)
      // A client that sends faster than the command reads is slowed down by TCP.
      if (frame.payload.length > 0 && input && !input.write(frame.payload)) {
        this.socket.pause()
        input.once('drain', () => this.socket.resume())
      }
      if (frame.flags & fin) input?.end()
    } else if (frame.type === controlType.synStream) {
      await this.open(frame.payload, frame.flags)
    } else if (frame.type === controlType.headers) {
      // Read for the sake of the compression state that later frames need.
      await this.inflated(frame.payload.subarray(4))
    } else if (frame.type === controlType.ping) {
      this.socket.write(controlFrame(controlType.ping, frame.payload))
    } else if (frame.type === controlType.rstStream) {
      this.inputs.get(frame.payload.readUInt32BE(0))?.end()
    } else if (frame.type === controlType.goAway) {
      this.socket.end()
    }
  }

  private async open(payload: Buffer, flags: number): Promise<void> {
    const stream = payload.readUInt32BE(0) & 0x7fff_ffff
    const type = readHeaders(await this.inflated(payload.subarray(10))).get('streamtype') ?? ''
    const input = new PassThrough()
    if (flags & fin) input.end()
    // Only these carry data of the client; others are read away.
    if (type !== 'stdin' && type !== 'resize') input.resume()
    this.inputs.set(stream, input)
    this.streams.set(type, stream)
    const headers = await this.deflated(uint32(0))
    this.socket.write(controlFrame(controlType.synReply, Buffer.concat([uint32(stream), headers])))
    this.onOpened()
  }

  private inflated(block: Buffer): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = []
      const collect = (chunk: Buffer): void => {
        chunks.push(chunk)
      }
      this.inflate.on('data', collect)
      this.inflate.once('error', reject)
      this.inflate.write(block, () => {
        this.inflate.off('data', collect).off('error', reject)
        resolve(Buffer.concat(chunks))
      })
    })
  }

  private deflated(block: Buffer): Promise<Buffer> {
    return new Promise((resolve) => {
      const chunks: Buffer[] = []
      const collect = (chunk: Buffer): void => {
        chunks.push(chunk)
      }
      this.deflate.on('data', collect)
      this.deflate.write(block)
      this.deflate.flush(constants.Z_SYNC_FLUSH, () => {
        this.deflate.off('data', collect)
        resolve(Buffer.concat(chunks))
      })
    })
  }
}
