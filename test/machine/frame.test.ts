import fc from 'fast-check'
import { expect, test } from 'vitest'
import { chunkBytes, encodeData, encodeFrame, FrameDecoder, FrameType } from '../../cluster/embedded/machine/frame.ts'

test('frames survive being cut anywhere on the line', () => {
  const frame = fc.record({
    stream: fc.integer({ min: 0, max: 0xffff_ffff }),
    type: fc.constantFrom(...Object.values(FrameType)),
    payload: fc.uint8Array({ maxLength: 300 }),
  })
  fc.assert(
    fc.property(
      fc.array(frame, { maxLength: 8 }),
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
      (frames, cuts) => {
        const line = Buffer.concat(frames.map(({ stream, type, payload }) => encodeFrame(stream, type, payload)))
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

test('long data is split so that one stream never holds the line', () => {
  const frames = [...encodeData(7, FrameType.data, Buffer.alloc(chunkBytes * 2 + 1))]
  expect(frames.map((frame) => frame.length)).toEqual([chunkBytes + 9, chunkBytes + 9, 10])
})
