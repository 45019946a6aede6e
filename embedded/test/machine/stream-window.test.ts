import { PassThrough, Readable, Writable } from 'node:stream'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { chunkBytes, encodeFrame, FrameDecoder, FrameType } from '../../machine/agent-line.ts'
import {
  pump,
  ReceiveWindow,
  SendWindow,
  sendWhole,
  WINDOW_BYTES,
} from '../../machine/stream-window.ts'

/**
 * A line that takes everything at once, and the bytes of payload that each stream has sent on it.
 */
function measuredLine() {
  const decoder = new FrameDecoder(chunkBytes)
  const sent = new Map<number, number>()
  const line = new Writable({
    write(bytes: Buffer, _encoding, done) {
      for (const { stream, payload } of decoder.push(bytes))
        sent.set(stream, (sent.get(stream) ?? 0) + payload.length)
      done()
    },
  })
  return { line, sent }
}

/** Output without an end, as of `yes`. */
const endless = () =>
  new Readable({
    read() {
      this.push(Buffer.alloc(chunkBytes, 'y'))
    },
  })

test('output that is not read stops at its window, and that of another stream goes on', async () => {
  const { line, sent } = measuredLine()
  const [stopped, read] = [new SendWindow(), new SendWindow()]
  const sources = [endless(), endless()] as const
  pump({ line, stream: 1, type: FrameType.data, window: stopped }, sources[0])
  pump({ line, stream: 2, type: FrameType.data, window: read }, sources[1])
  await expect
    .poll(() => {
      read.grant(WINDOW_BYTES)
      return sent.get(2)
    })
    .toBeGreaterThan(32 * WINDOW_BYTES)
  for (const source of sources) source.destroy()
  expect(sent.get(1)).toBeGreaterThanOrEqual(WINDOW_BYTES)
  expect(sent.get(1)).toBeLessThanOrEqual(WINDOW_BYTES + chunkBytes)
})

test('everything arrives through a window, whatever is read when', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: 5 * WINDOW_BYTES }),
      fc.array(fc.integer({ min: 1, max: WINDOW_BYTES }), { minLength: 1, maxLength: 20 }),
      async (length, reads) => {
        const { line, sent } = measuredLine()
        const window = new SendWindow()
        const received = new ReceiveWindow((bytes) => window.grant(bytes))
        const whole = sendWhole(
          { line, stream: 1, type: FrameType.data, window },
          Buffer.alloc(length),
        )
        let read = 0
        for (let turn = 0; read < length; turn++) {
          await new Promise(setImmediate)
          const there = (sent.get(1) ?? 0) - read
          const next = Math.min(there, reads[turn % reads.length] ?? 1)
          expect(received.receive(next)).toBe(true)
          received.read(next)
          read += next
        }
        await whole
        expect(sent.get(1) ?? 0).toBe(length)
      },
    ),
    { numRuns: 20 },
  )
})

test('a sender whose reader is gone waits no longer', async () => {
  const { line } = measuredLine()
  const window = new SendWindow()
  const whole = sendWhole({ line, stream: 1, type: FrameType.data, window }, Buffer.alloc(2e6))
  window.release()
  await whole
})

test('a sender that ignores its window is noticed', () => {
  const received = new ReceiveWindow(() => {})
  const parts = Array.from({ length: 20 }, () => received.receive(chunkBytes))
  expect(parts.slice(0, WINDOW_BYTES / chunkBytes).every(Boolean)).toBe(true)
  expect(parts.at(-1)).toBe(false)
})

test('a frame that claims more than a frame may hold is refused before its content arrives', () => {
  const decoder = new FrameDecoder(chunkBytes)
  expect(decoder.push(encodeFrame(1, FrameType.data, Buffer.alloc(chunkBytes)))).toHaveLength(1)
  expect(() => decoder.push(Buffer.from('\xff\xff\xff\xff\0\0\0\0\x14', 'latin1'))).toThrow()
})

test('a line that is full stops its sources, and they go on when it has room', async () => {
  const line = new PassThrough({ highWaterMark: chunkBytes })
  const source = endless()
  pump({ line, stream: 1, type: FrameType.data, window: new SendWindow() }, source)
  await expect.poll(() => source.isPaused()).toBe(true)
  line.resume()
  await expect.poll(() => source.isPaused()).toBe(true)
  source.destroy()
})
