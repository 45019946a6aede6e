import { once } from 'node:events'
import { type Duplex, PassThrough, Writable } from 'node:stream'
import { constants, createDeflate, createInflate, type Deflate, type Inflate } from 'node:zlib'
import { noticeEnd } from './paused-connection.ts'

// SPDY/3.1 as far as Kubernetes uses it for exec, attach and port-forward.

/**
 * The first word of control frames: the control bit, version 3 and a type. Below are the numbers of
 * streams.
 */
const control = {
  any: 0x8003_0000,
  synStream: 0x8003_0001,
  synReply: 0x8003_0002,
  rstStream: 0x8003_0003,
  ping: 0x8003_0006,
  goAway: 0x8003_0007,
}

const fin = 0x01

function frame(first: number, payload: Uint8Array, flags = 0): Buffer {
  return Buffer.concat([uint32(first, (flags << 24) + payload.length), payload])
}

function uint32(...numbers: number[]): Buffer {
  const bytes = Buffer.alloc(numbers.length * 4)
  for (const [index, number] of numbers.entries()) bytes.writeUInt32BE(number, index * 4)
  return bytes
}

/** Names and values of an uncompressed header block; names are lower case. */
function readHeaders(block: Buffer): Map<string, string> {
  const headers = new Map<string, string>()
  let at = 4
  const text = (): string => {
    const length = block.readUInt32BE(at)
    const value = block.subarray(at + 4, at + 4 + length)
    at += 4 + length
    return String(value)
  }
  while (at < block.length) headers.set(text().toLowerCase(), text())
  return headers
}

export interface ClientStream {
  /** Data from the client. */
  input: PassThrough
  /** Data to the client; ending it closes this half of the stream. */
  output: Writable
}

/** A stream that the client opened; its headers define its purpose. */
export interface SpdyStream extends ClientStream {
  headers: ReadonlyMap<string, string>
}

/**
 * Serves a SPDY/3.1 connection as Kubernetes uses it: only the client opens streams, and flow
 * control windows are ignored, as by spdystream, the library of kubectl and kubelet. `opened` is
 * called for each new stream.
 */
export function serveSpdy(socket: Duplex, opened: (stream: SpdyStream) => void): void {
  // All header blocks of a direction share one compression state.
  const inflate = createInflate({ dictionary, finishFlush: constants.Z_SYNC_FLUSH })
  const deflate = createDeflate({ dictionary })
  const inputs = new Map<number, PassThrough>()
  let isWaiting = false
  const noticed = noticeEnd(
    () => isWaiting && socket.writableLength === 0,
    () => socket.write(frame(control.ping, uint32(2))),
  )

  const endInput = (stream: number) => {
    inputs.get(stream)?.end()
    inputs.delete(stream)
  }

  async function open(payload: Buffer, flags: number): Promise<void> {
    const stream = payload.readUInt32BE(0) & 0x7fff_ffff
    const headers = readHeaders(await transformed(inflate, payload.subarray(10)))
    const input = new PassThrough()
    inputs.set(stream, input)
    if (flags & fin) endInput(stream)
    const reply = await transformed(deflate, uint32(0))
    socket.write(frame(control.synReply, Buffer.concat([uint32(stream), reply])))
    opened({ headers, input, output: outputOf(stream) })
  }

  function outputOf(stream: number): Writable {
    const send = (chunk: Uint8Array, flags: number, done: () => void) => {
      if (socket.writable) socket.write(frame(stream, chunk, flags), () => done())
      else done()
    }
    return new Writable({
      write: (chunk: Buffer, _encoding, done) => send(chunk, 0, done),
      final: (done) => send(Buffer.alloc(0), fin, done),
    })
  }

  async function receive(stream: number, flags: number, data: Buffer): Promise<void> {
    const input = inputs.get(stream)
    // TCP slows down a client that sends faster than the other end reads.
    if (data.length > 0 && input && !input.write(data)) {
      isWaiting = true
      await once(input, 'drain')
      isWaiting = false
    }
    if (flags & fin) endInput(stream)
  }

  function answerPing(payload: Buffer): void {
    // Those with even numbers are answers to this server's own.
    if (payload.readUInt32BE(0) % 2 === 1) socket.write(frame(control.ping, payload))
  }

  async function handle(first: number, flags: number, payload: Buffer): Promise<void> {
    if (first < control.any) return receive(first, flags, payload)
    switch (first) {
      case control.synStream:
        return open(payload, flags)
      case control.ping:
        return answerPing(payload)
      case control.rstStream:
        return endInput(payload.readUInt32BE(0))
      case control.goAway:
        socket.end()
    }
  }

  async function handleFrames(): Promise<void> {
    let rest: Buffer = Buffer.alloc(0)
    for await (const chunk of socket) {
      rest = Buffer.concat([rest, chunk])
      while (rest.length >= 8) {
        const end = 8 + rest.readUIntBE(5, 3)
        if (rest.length < end) break
        await handle(rest.readUInt32BE(0), rest.readUInt8(4), rest.subarray(8, end))
        rest = rest.subarray(end)
      }
    }
  }

  socket.on('error', () => socket.destroy())
  socket.on('close', () => {
    noticed()
    for (const input of inputs.values()) input.end()
    inflate.close()
    deflate.close()
  })
  handleFrames().catch(() => socket.destroy())
}

/** A header block, compressed or decompressed with the state that earlier blocks left. */
function transformed(zlib: Deflate | Inflate, block: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    const collect = (chunk: Buffer): void => {
      chunks.push(chunk)
    }
    zlib.on('data', collect)
    zlib.once('error', reject)
    zlib.write(block)
    zlib.flush(constants.Z_SYNC_FLUSH, () => {
      zlib.off('data', collect).off('error', reject)
      resolve(Buffer.concat(chunks))
    })
  })
}

// The dictionary that SPDY/3 compresses header blocks with (SPDY Protocol draft 3, 2.6.10.1): words
// with their lengths, then plain text.

const message =
  'options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow ' +
  'authorization cache-control connection content-base content-encoding content-language content-length ' +
  'content-location content-md5 content-range content-type date etag expect expires from host if-match ' +
  'if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma ' +
  'proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade ' +
  'user-agent vary via warning www-authenticate method get status'

const responses = [
  '200 OK',
  'version',
  'HTTP/1.1',
  'url',
  'public',
  'set-cookie',
  'keep-alive',
  'origin',
]

const plainText =
  '1001012012022052063003023033043053063074024054064074084094104114124134144154164175025045052' +
  '03 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden' +
  '404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug ' +
  'Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,' +
  'application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,' +
  'sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.'

const dictionary: Buffer = Buffer.concat([
  ...[...message.split(' '), ...responses].flatMap((word) => [
    uint32(word.length),
    Buffer.from(word),
  ]),
  Buffer.from(plainText),
])
