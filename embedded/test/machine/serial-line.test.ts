import { PassThrough } from 'node:stream'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SerialLine } from '../../machine/serial-line.ts'

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
  const output = new PassThrough({ highWaterMark: 1 << 20 })
  const line = new SerialLine(output, 3584)
  let told = false
  expect(line.write(Buffer.alloc(300 * 1024))).toBe(false)
  line.drained(() => {
    told = true
  })
  for (let sent = 0; sent < 30 * 1024; sent += 3584) line.acknowledge(3584)
  expect(told).toBe(false)
  for (let sent = 0; sent < 30 * 1024; sent += 3584) line.acknowledge(3584)
  expect(told).toBe(true)
})
