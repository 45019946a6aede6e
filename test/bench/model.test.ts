import { expect, test, vi } from 'vitest'
import { countEqualRecordings } from '../../bench/model.ts'

test('`make bench recordings` counts every recording in a folder, and all are equal', async () => {
  const printed = vi.spyOn(console, 'log').mockImplementation(() => undefined)
  await countEqualRecordings()
  const [equal, all] = /(\d+) of (\d+)\.$/.exec(String(printed.mock.calls[0]?.[0]))?.slice(1) ?? []
  expect(Number(all)).toBeGreaterThan(400)
  expect(equal).toBe(all)
})
