import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { projectRoot } from '../../host/layout.ts'
import { processStartTime } from '../../host/live-process.ts'
import { oneAtATime, onlyOne } from '../../host/one-at-a-time.ts'
import { silent } from '../../host/progress.ts'

let folder: string
const quiet = { doing: 'works', progress: silent }
const lock = () => join(folder, 'deep', 'work.lock')
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'one-at-a-time-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

test('of many callers one works at a time, and each gets its result', async () => {
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
        { doing: 'works', progress: { ...silent, start: () => waited++ } },
      ),
    ),
  )
  expect(results).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
  expect([most, waited]).toEqual([1, 7])
  expect(readdirSync(join(folder, 'deep'))).toEqual([])
})

test('after work that failed the next caller works', async () => {
  await expect(
    oneAtATime(lock(), () => Promise.reject(new Error('no network')), quiet),
  ).rejects.toThrow('no network')
  expect(await oneAtATime(lock(), async () => 'done', quiet)).toBe('done')
})

test('the lock of a process that has ended is ignored, and its file is removed', async () => {
  mkdirSync(dirname(lock()))
  const left = [`999999999-1-x.1`, `${process.pid}-1-x.choosing`, `${process.pid}-1-y.2`]
  for (const ticket of left) writeFileSync(`${lock()}.${ticket}`, 'worked')
  expect(await oneAtATime(lock(), async () => 'done', quiet)).toBe('done')
  expect(readdirSync(dirname(lock()))).toEqual([])
})

test('a caller is not told to wait for one that takes a later number', async () => {
  mkdirSync(dirname(lock()))
  const other = `${lock()}.${process.pid}-${processStartTime(process.pid)}-later`
  writeFileSync(`${other}.choosing`, '')
  const told: string[] = []
  const progress = { ...silent, start: (what: string) => void told.push(what) }
  const work = oneAtATime(lock(), async () => 'done', { doing: 'works', progress })
  writeFileSync(`${other}.2`, 'plays lab 1')
  rmSync(`${other}.choosing`)
  expect([await work, told]).toEqual(['done', []])
})

test('onlyOne refuses a second process and tells it what the first one does', async () => {
  const refusal = ({ pid, doing }: { pid: number; doing: string }) => new Error(`${pid} ${doing}`)
  const alone = (work: () => Promise<string>) => onlyOne(lock(), work, { doing: 'guides', refusal })
  const second = () => alone(async () => 'second')
  const first = alone(async () => {
    await expect(second()).rejects.toThrow(`${process.pid} guides`)
    return 'first'
  })
  expect(await first).toBe('first')
  expect(await second()).toBe('second')
})

/** A process that takes the lock, says so, and works on until it is ended. */
async function worker(): Promise<{ child: ChildProcess; began: Promise<unknown> }> {
  const program = `import { oneAtATime } from ${JSON.stringify(join(projectRoot, 'host/one-at-a-time.ts'))}
    const progress = { start() {}, end() {}, note() {} }
    await oneAtATime(${JSON.stringify(lock())}, async () => {
      console.log('works')
      await new Promise((resolve) => setTimeout(resolve, 3_600_000))
    }, { doing: 'works for long', progress })`
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', program], {
    cwd: projectRoot,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  return { child, began: once(child.stdout, 'data') }
}

test('of four processes one works; each time it is killed, exactly one of those that wait continues', async () => {
  const workers = await Promise.all([worker(), worker(), worker(), worker()])
  const working = new Set<ChildProcess>()
  for (const { child, began } of workers) began.then(() => working.add(child))
  try {
    for (let count = 1; count <= workers.length; count++) {
      await expect.poll(() => working.size).toBe(count)
      // Longer than those that wait look away.
      await new Promise((resolve) => setTimeout(resolve, 700))
      expect(working.size).toBe(count)
      const live = [...working].filter(
        ({ exitCode, signalCode }) => exitCode === null && signalCode === null,
      )
      expect(live).toHaveLength(1)
      live[0]?.kill('SIGKILL')
      await once(live[0] as ChildProcess, 'exit')
    }
  } finally {
    for (const { child } of workers) child.kill('SIGKILL')
  }
})
