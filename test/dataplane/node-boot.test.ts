import { expect, test } from 'vitest'
import { parseNodeBoot } from '../../dataplane/capture.ts'

const bootId = '8a217065-9a4f-477e-885e-2d50d89d2902'
const mark = 'd9'.repeat(32)

test('reads the boot ID, the uptime, the boot time and the mark of a class', () => {
  expect(parseNodeBoot(`boot_id ${bootId}\nuptime 50.49\nbtime 1795355199\nclass ${mark}\n`)).toEqual({
    bootId,
    uptimeSeconds: 50.49,
    bootedAtSeconds: 1795355199,
    classMark: mark,
  })
  expect(parseNodeBoot(`boot_id ${bootId}\nuptime 7\n`)).toEqual({ bootId, uptimeSeconds: 7 })
})

test.each([
  undefined,
  '',
  'uptime 5.0\n',
  `boot_id ${bootId}\n`,
  `boot_id ${bootId}x\nuptime 5.0\n`,
  `boot_id ${bootId}\nuptime -5\n`,
])('%j is not a boot file', (text) => expect(parseNodeBoot(text)).toBeUndefined())
