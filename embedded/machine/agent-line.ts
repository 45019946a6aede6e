// The serial line between host and guest carries frames:  length (4) · stream (4) · type (1) · payload (length bytes)
import type { Writable } from 'node:stream'

/** The type of a frame. Host to guest: spawn … script; guest to host: ready … acknowledge; data, end and error in both directions. */
export const FrameType = {
  /** JSON SpawnRequest: start a process as this stream. */
  spawn: 1,
  /** JSON {signal}. */
  kill: 2,
  /** JSON {columns, rows}. */
  resize: 3,
  /** JSON {path, mode, bytes}, a zero byte, the content: write a file; answered by `done` or `error`. */
  write: 4,
  /** JSON {socket}: accept connections on a Unix socket of the guest; each becomes an `opened` stream. */
  forward: 5,
  /** JSON ScriptRequest: run a shell script in a waiting shell; ends with `exit`. */
  script: 6,
  /** The agent is up. */
  ready: 10,
  /** JSON {pid}. */
  started: 11,
  /** JSON {code, signal}: the last frame of a process' stream. */
  exit: 12,
  /** The request of this stream succeeded. */
  done: 13,
  /** JSON {forward}: the guest accepted a connection and named this stream for it. */
  opened: 14,
  /** Four bytes: the number of bytes that the agent has read since the last acknowledgement. */
  acknowledge: 15,
  /** Bytes: standard input (to the guest), standard output or connection data. */
  data: 20,
  /** Bytes of standard error. */
  errorData: 21,
  /** The sender of `data` is done. */
  end: 22,
  /** Text: the request of this stream failed. */
  error: 23,
} as const

export interface Frame {
  stream: number
  type: number
  payload: Buffer
}

const headerBytes = 9

/** Maximum payload of a frame; longer data is split, so that one stream does not block the others for long. */
export const chunkBytes = 64 * 1024

/** One frame as bytes. */
export function encodeFrame(stream: number, type: number, payload: Uint8Array | string = ''): Buffer {
  const body = typeof payload === 'string' ? Buffer.from(payload) : payload
  const frame = Buffer.allocUnsafe(headerBytes + body.length)
  frame.writeUInt32BE(body.length, 0)
  frame.writeUInt32BE(stream, 4)
  frame.writeUInt8(type, 8)
  frame.set(body, headerBytes)
  return frame
}

/** Data of any length as frames of at most `chunkBytes`. */
export function* encodeData(stream: number, type: number, data: Uint8Array): Generator<Buffer> {
  for (let start = 0; start < data.length; start += chunkBytes)
    yield encodeFrame(stream, type, data.subarray(start, start + chunkBytes))
}

/** Collects received bytes and returns complete frames. */
export class FrameDecoder {
  private parts: Buffer[] = []
  private held = 0

  /** The frames completed by these bytes, in order. */
  push(bytes: Buffer): Frame[] {
    this.parts.push(bytes)
    this.held += bytes.length
    const frames: Frame[] = []
    while (this.held >= headerBytes) {
      const head = this.peek(headerBytes)
      const length = head.readUInt32BE(0)
      if (this.held < headerBytes + length) break
      const whole = this.peek(headerBytes + length)
      const payload = whole.subarray(headerBytes, headerBytes + length)
      frames.push({ stream: whole.readUInt32BE(4), type: whole.readUInt8(8), payload })
      this.parts = [whole.subarray(headerBytes + length)]
      this.held -= headerBytes + length
    }
    return frames
  }

  private peek(bytes: number): Buffer {
    const first = this.parts[0]
    if (first && first.length >= bytes) return first
    const joined = Buffer.concat(this.parts)
    this.parts = [joined]
    return joined
  }
}

/** Senders must wait if more than this is queued. */
const fullBytes = 256 * 1024

/** The line to the guest, with flow control by acknowledgements of its agent. */
export class SerialLine {
  private readonly output: Writable
  private readonly windowBytes: number
  private queue: Uint8Array[] = []
  private queued = 0
  private unacknowledged = 0
  private waiting: (() => void)[] = []

  constructor(output: Writable, windowBytes: number) {
    this.output = output
    this.windowBytes = windowBytes
  }

  /** Sends bytes, in order, as soon as the guest can receive them. Returns false if the caller must wait for `drained`. */
  write(bytes: Uint8Array): boolean {
    this.queue.push(bytes)
    this.queued += bytes.length
    this.flush()
    return this.queued < fullBytes
  }

  /** Calls back once when more can be sent. */
  drained(callback: () => void): void {
    if (this.queued < fullBytes) callback()
    else this.waiting.push(callback)
  }

  /** Handles an acknowledgement: the agent has read this number of bytes. */
  acknowledge(bytes: number): void {
    this.unacknowledged -= bytes
    this.flush()
    if (this.queued >= fullBytes) return
    for (const callback of this.waiting.splice(0)) callback()
  }

  private flush(): void {
    for (let room = this.windowBytes - this.unacknowledged; room > 0 && this.queue[0]; ) {
      const head = this.queue[0]
      const part = head.subarray(0, room)
      if (part.length === head.length) this.queue.shift()
      else this.queue[0] = head.subarray(part.length)
      this.output.write(part)
      this.queued -= part.length
      this.unacknowledged += part.length
      room -= part.length
    }
  }
}
