import { badRequest } from './status-error.ts'

// Frames of SPDY/3.1 as far as remote commands use them.

export const controlType = {
  synStream: 1,
  synReply: 2,
  rstStream: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  headers: 8,
  windowUpdate: 9,
}

export const fin = 0x01

export type SpdyFrame =
  | { is: 'data'; stream: number; flags: number; payload: Buffer }
  | { is: 'control'; type: number; flags: number; payload: Buffer }

/** A frame of a command's input is far smaller; anything larger is no remote command. */
const longestFrame = 4 * 1024 * 1024

/** Cuts a byte stream into frames. */
export class FrameReader {
  private rest: Buffer = Buffer.alloc(0)

  /** The frames that are complete with this chunk. Throws for a frame that is too long. */
  push(chunk: Buffer): SpdyFrame[] {
    this.rest = this.rest.length > 0 ? Buffer.concat([this.rest, chunk]) : chunk
    const frames: SpdyFrame[] = []
    while (this.rest.length >= 8) {
      const length = this.rest.readUIntBE(5, 3)
      if (length > longestFrame) throw badRequest(`a frame of ${length} bytes is longer than a remote command sends`)
      if (this.rest.length < 8 + length) break
      frames.push(frameOf(this.rest.subarray(0, 8), this.rest.subarray(8, 8 + length)))
      this.rest = this.rest.subarray(8 + length)
    }
    return frames
  }
}

function frameOf(head: Buffer, payload: Buffer): SpdyFrame {
  const flags = head.readUInt8(4)
  const first = head.readUInt32BE(0)
  if (first < 0x8000_0000) return { is: 'data', stream: first, flags, payload }
  return { is: 'control', type: first & 0xffff, flags, payload }
}

export function dataFrame(stream: number, payload: Uint8Array, flags = 0): Buffer {
  const head = Buffer.alloc(8)
  head.writeUInt32BE(stream)
  head.writeUInt8(flags, 4)
  head.writeUIntBE(payload.length, 5, 3)
  return Buffer.concat([head, payload])
}

export function controlFrame(type: number, payload: Uint8Array, flags = 0): Buffer {
  const head = Buffer.alloc(8)
  // The control bit and version 3.
  head.writeUInt16BE(0x8003)
  head.writeUInt16BE(type, 2)
  head.writeUInt8(flags, 4)
  head.writeUIntBE(payload.length, 5, 3)
  return Buffer.concat([head, payload])
}

export function uint32(...numbers: number[]): Buffer {
  const bytes = Buffer.alloc(numbers.length * 4)
  for (const [index, number] of numbers.entries()) bytes.writeUInt32BE(number, index * 4)
  return bytes
}

/** Names and values of an uncompressed header block; names are lower case. */
export function readHeaders(block: Buffer): Map<string, string> {
  const headers = new Map<string, string>()
  let at = 4
  const text = (): string => {
    const length = block.readUInt32BE(at)
    const value = block.subarray(at + 4, at + 4 + length)
    at += 4 + length
    return String(value)
  }
  for (let left = block.length >= 4 ? block.readUInt32BE(0) : 0; left > 0 && at < block.length; left--) {
    const name = text()
    headers.set(name.toLowerCase(), text())
  }
  return headers
}
