import { PassThrough } from 'node:stream'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  chunkBytes,
  encodeFrame,
  FrameDecoder,
  FrameType,
  SerialLine,
  writeData,
} from '../../machine/agent-line.ts'

test('frames can be received in parts of any size', () => {
  const frame = fc.record({
    stream: fc.integer({ min: 0, max: 0xffff_ffff }),
    type: fc.constantFrom(...Object.values(FrameType)),
    payload: fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc.string({ maxLength: 900, unit: 'grapheme' }).map(Buffer.from),
    ),
  })
  fc.assert(
    fc.property(
      fc.array(frame, { maxLength: 8 }),
      fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1 }),
      (frames, cuts) => {
        const line = Buffer.concat(
          frames.map(({ stream, type, payload }) => encodeFrame(stream, type, payload)),
        )
        const decoder = new FrameDecoder()
        const seen = []
        for (let at = 0, turn = 0; at < line.length; turn++) {
          const size = cuts[turn % cuts.length] ?? 1
          seen.push(...decoder.push(line.subarray(at, at + size)))
          at += size
        }
        expect(seen.map((one) => ({ ...one, payload: [...one.payload] }))).toEqual(
          frames.map((one) => ({ ...one, payload: [...one.payload] })),
        )
      },
    ),
  )
})

test('long data is split, so that one stream does not block the others', () => {
  const line = new PassThrough()
  const frames: number[] = []
  line.on('data', (frame: Buffer) => frames.push(frame.length))
  writeData(line, 7, FrameType.data, Buffer.alloc(chunkBytes * 2 + 1))
  expect(frames).toEqual([chunkBytes + 9, chunkBytes + 9, 10])
})

test('no more bytes are sent than the guest can hold, and all arrive in order', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 9000 }), { maxLength: 6 }), (writes) => {
      const output = new PassThrough({ highWaterMark: 1 << 20 })
      const line = new SerialLine(output, 3584)
      const arrived: Buffer[] = []
      for (const bytes of writes) line.write(bytes)
      for (let part = output.read() as Buffer | null; part; part = output.read() as Buffer | null) {
        expect(part.length).toBeLessThan(4096 - 128)
        arrived.push(part)
        line.acknowledge(part.length)
      }
      expect(Buffer.concat(arrived)).toEqual(Buffer.concat(writes))
    }),
  )
})

test('a full line is reported, and when it has room again', () => {
  const line = new SerialLine(new PassThrough({ highWaterMark: 1 << 20 }), 3584)
  let told = false
  expect(line.write(Buffer.alloc(3584 * 100))).toBe(false)
  line.once('drain', () => {
    told = true
  })
  for (let part = 1; part < 99; part++) line.acknowledge(3584)
  expect(told).toBe(false)
  line.acknowledge(3584)
  expect(told).toBe(true)
})
