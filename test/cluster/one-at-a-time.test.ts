import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { oneAtATime } from '../../host/one-at-a-time.ts'

let folder: string
const lock = () => join(folder, 'deep', 'work.lock')
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'one-at-a-time-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

test('many come, one works, and all get their results', async () => {
  let working = 0
  let most = 0
  let waited = 0
  const results = await Promise.all(
    Array.from({ length: 8 }, (_, index) =>
      oneAtATime(
        lock(),
        async () => {
          most = Math.max(most, ++working)
          await new Promise((resolve) => setTimeout(resolve, 5))
          working--
          return index
        },
        () => waited++,
      ),
    ),
  )
  expect(results).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
  expect([most, waited]).toEqual([1, 7])
  expect(readdirSync(join(folder, 'deep'))).toEqual([])
})

test('work that fails lets the next one in', async () => {
  await expect(oneAtATime(lock(), () => Promise.reject(new Error('no network')))).rejects.toThrow('no network')
  expect(await oneAtATime(lock(), async () => 'done')).toBe('done')
})

test('a lock whose process has ended, or that nobody can read, keeps nobody out', async () => {
  await oneAtATime(lock(), async () => {})
  for (const left of [
    JSON.stringify({ pid: 999_999_999, startTime: '1' }),
    JSON.stringify({ pid: process.pid, startTime: '1' }),
    '{',
  ]) {
    writeFileSync(lock(), left)
    expect(await oneAtATime(lock(), async () => 'done')).toBe('done')
    expect(existsSync(lock())).toBe(false)
  }
})
