import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { usualPort } from '../../guide/server/usual-port.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'usual-port-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

test('the same port each time; the next free one while another process has it, which then stays', async () => {
  const file = join(folder, 'guide', 'port')
  const usual = await usualPort(file)
  expect(await usualPort(file)).toBe(usual)
  const taken = createServer().listen(usual, '127.0.0.1')
  await once(taken, 'listening')
  expect((taken.address() as AddressInfo).port).toBe(usual)
  const next = await usualPort(file)
  expect(next).toBeGreaterThan(usual)
  taken.close()
  await once(taken, 'close')
  expect(await usualPort(file)).toBe(next)
})

test.each(['', 'x', '80', '99999', '-1'])(
  'a file that contains "%s" counts as none',
  async (text) => {
    const file = join(folder, 'port')
    writeFileSync(file, text)
    expect(await usualPort(file)).toBeGreaterThanOrEqual(8630)
  },
)
