import fc from 'fast-check'
import { expect, test } from 'vitest'
import { chunkBytes, encodeData, encodeFrame, encodePacked, FrameDecoder, FrameType } from '../../machine/frame.ts'

test.each([
  ['as they are', encodeFrame],
  ['packed', encodePacked],
])('frames %s can be received in parts of any size', (_how, encode) => {
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
        const line = Buffer.concat(frames.map(({ stream, type, payload }) => encode(stream, type, payload)))
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
  const frames = [...encodeData(7, FrameType.data, Buffer.alloc(chunkBytes * 2 + 1))]
  expect(frames.map((frame) => frame.length)).toEqual([chunkBytes + 9, chunkBytes + 9, 10])
})

test('long payloads for the guest are compressed, short ones are not', () => {
  const rules = Array.from({ length: 300 }, (_, index) => `-A KUBE-SERVICES -d 10.96.0.${index % 250}/32 -j KUBE-SVC`)
  const text = rules.join('\n')
  expect(encodePacked(1, FrameType.script, text).length).toBeLessThan(text.length / 5)
  expect(encodePacked(1, FrameType.kill, '{"signal":"SIGTERM"}')).toEqual(
    encodeFrame(1, FrameType.kill, '{"signal":"SIGTERM"}'),
  )
})
