// The serial line between host and guest carries frames: length (4) · stream (4) · type (1) ·
// payload (length bytes)
import { Writable } from 'node:stream'

/**
 * The type of a frame. Host to guest: spawn … script; guest to host: ready … acknowledge; credit,
 * data, end and error in both directions.
 */
export const FrameType = {
  /** JSON SpawnRequest: start a process as this stream. */
  spawn: 1,
  /** JSON {signal}. */
  kill: 2,
  /** JSON {columns, rows}. */
  resize: 3,
  /**
   * JSON of a GuestFile but its content, a zero byte, the content: write a file; answered by `done`
   * or `error`.
   */
  write: 4,
  /**
   * JSON {socket}: accept connections on a Unix socket of the guest; each becomes an `opened`
   * stream.
   */
  forward: 5,
  /** JSON ScriptRequest: run a shell script in a waiting shell; ends with `exit`. */
  script: 6,
  /** The agent is up. */
  ready: 10,
  /** JSON {pid}. */
  started: 11,
  /** JSON ProcessEnd: the last frame of a process' stream. */
  exit: 12,
  /** The request of this stream succeeded. */
  done: 13,
  /** The guest accepted a connection and named this stream for it. */
  opened: 14,
  /** Four bytes: the number of bytes that the agent has read since the last acknowledgement. */
  acknowledge: 15,
  /**
   * As `creditPayload` writes it, in both directions: data of this stream that was read, so that
   * more may be sent.
   */
  credit: 16,
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

/**
 * Maximum payload of a frame; longer data is split, so that one stream does not block the others
 * for long.
 */
export const chunkBytes = 64 * 1024

/** One frame as bytes. */
export function encodeFrame(
  stream: number,
  type: number,
  payload: Uint8Array | string = '',
): Buffer {
  const body = typeof payload === 'string' ? Buffer.from(payload) : payload
  const frame = Buffer.allocUnsafe(headerBytes + body.length)
  frame.writeUInt32BE(body.length, 0)
  frame.writeUInt32BE(stream, 4)
  frame.writeUInt8(type, 8)
  frame.set(body, headerBytes)
  return frame
}

/** The content of a `credit` frame: a type of data, and how many bytes of it were read. */
export function creditPayload(type: number, bytes: number): Buffer {
  const payload = Buffer.alloc(5)
  payload.writeUInt8(type, 0)
  payload.writeUInt32BE(bytes, 1)
  return payload
}

/** Reads the content of a `credit` frame. */
export const readCredit = (payload: Buffer): { type: number; bytes: number } => ({
  type: payload.readUInt8(0),
  bytes: payload.readUInt32BE(1),
})

/** Collects received bytes and returns complete frames. */
export class FrameDecoder {
  #parts: Buffer[] = []
  #buffered = 0
  readonly #longest: number

  /** @param longest the largest payload of a frame; without it, the sender is trusted */
  constructor(longest = Number.POSITIVE_INFINITY) {
    this.#longest = longest
  }

  /**
   * The frames completed by these bytes, in order. @throws Error for a frame that is longer than
   * allowed, before its content arrives
   */
  push(bytes: Buffer): Frame[] {
    this.#parts.push(bytes)
    this.#buffered += bytes.length
    const frames: Frame[] = []
    while (this.#buffered >= headerBytes) {
      const head = this.#peek(headerBytes)
      const length = head.readUInt32BE(0)
      if (length > this.#longest) throw new Error(`a frame of ${length} bytes`)
      if (this.#buffered < headerBytes + length) break
      const whole = this.#peek(headerBytes + length)
      const payload = whole.subarray(headerBytes, headerBytes + length)
      frames.push({ stream: whole.readUInt32BE(4), type: whole.readUInt8(8), payload })
      this.#parts = [whole.subarray(headerBytes + length)]
      this.#buffered -= headerBytes + length
    }
    return frames
  }

  #peek(bytes: number): Buffer {
    const first = this.#parts[0]
    if (first && first.length >= bytes) return first
    const joined = Buffer.concat(this.#parts)
    this.#parts = [joined]
    return joined
  }
}

/**
 * Writes data of any length as frames of at most `chunkBytes` on a line. Returns false if the
 * sender must wait for its `drain`.
 */
export function writeData(line: Writable, stream: number, type: number, data: Uint8Array): boolean {
  let room = true
  for (let start = 0; start < data.length; start += chunkBytes)
    room = line.write(encodeFrame(stream, type, data.subarray(start, start + chunkBytes)))
  return room
}

/** Senders must wait if more than this is queued. */
const fullBytes = 256 * 1024

/** The line to the guest: bytes are sent, in order, as soon as the guest can receive them. */
export class SerialLine extends Writable {
  readonly #output: Writable
  readonly #windowBytes: number
  #unacknowledged = 0
  #rest: Buffer = Buffer.alloc(0)
  #sent: (() => void) | undefined

  constructor(output: Writable, windowBytes: number) {
    super({ highWaterMark: fullBytes })
    // One for each stream that waits for room.
    this.setMaxListeners(0)
    this.#output = output
    this.#windowBytes = windowBytes
  }

  override _write(bytes: Buffer, _encoding: BufferEncoding, sent: () => void): void {
    this.#rest = bytes
    this.#sent = sent
    this.#flush()
  }

  /** Handles an acknowledgement: the agent has read this number of bytes. */
  acknowledge(bytes: number): void {
    this.#unacknowledged -= bytes
    this.#flush()
  }

  #flush(): void {
    const part = this.#rest.subarray(0, this.#windowBytes - this.#unacknowledged)
    this.#rest = this.#rest.subarray(part.length)
    this.#unacknowledged += part.length
    if (part.length > 0) this.#output.write(part)
    if (this.#rest.length > 0) return
    const sent = this.#sent
    this.#sent = undefined
    sent?.()
  }
}
