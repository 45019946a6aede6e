import { afterEach, expect, test } from 'vitest'
import { Workqueue } from '../../controllers/context.ts'

let queue: Workqueue
afterEach(() => queue.stop())

function startQueue(
  reconcile: (key: string) => void,
  failed: (error: unknown) => void = () => {},
): void {
  queue = new Workqueue(reconcile, failed)
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

async function until(holds: () => boolean) {
  const deadline = Date.now() + 20_000
  while (!holds()) {
    if (Date.now() > deadline) throw new Error('it never came true')
    await turn()
  }
}

test('several requests for a key are one reconcile, in the next macrotask', async () => {
  const seen: string[] = []
  startQueue((key) => seen.push(key))
  for (let count = 0; count < 3; count++) for (const key of ['a', 'b']) queue.add(key)
  expect(seen).toEqual([])
  await until(() => seen.includes('b'))
  await turn()
  expect(seen).toEqual(['a', 'b'])
})

test('a key added during its own reconcile runs again, but in a later turn', async () => {
  let runs = 0
  startQueue((key) => {
    if (++runs < 3) queue.add(key)
  })
  queue.add('a')
  await until(() => runs > 0)
  expect(runs).toBe(1)
  await until(() => runs === 3)
})

test('a failing key is reported and tried again with growing pauses, others go on', async () => {
  const times: number[] = []
  const errors: unknown[] = []
  const order: string[] = []
  startQueue(
    (key) => {
      order.push(key)
      if (key === 'bad' && times.push(performance.now()) < 5) throw new Error('no')
    },
    (error) => errors.push(String(error)),
  )
  queue.add('bad')
  queue.add('good')
  await until(() => times.length === 5)
  expect(order).toEqual(['bad', 'good', 'bad', 'bad', 'bad', 'bad'])
  expect(errors).toEqual(Array(4).fill('Error: no'))
  const pauses = times.slice(1).map((time, index) => time - (times[index] ?? 0))
  // 5, 10, 20 and 40 ms; a busy machine only makes them longer.
  for (const [index, pause] of pauses.entries())
    expect(pause).toBeGreaterThanOrEqual(5 * 2 ** index - 1.5)
})

test('of several times for a key the last is used', async () => {
  const start = performance.now()
  const times: number[] = []
  startQueue(() => times.push(performance.now() - start))
  for (const delay of [60_000, 0, 20]) queue.addAfter('a', delay)
  await until(() => times.length === 1)
  expect(times[0]).toBeLessThan(20_000)
})

test('a stopped queue runs nothing, whatever is added before or after', async () => {
  let runs = 0
  startQueue(() => runs++)
  queue.add('a')
  queue.addAfter('b', 1)
  queue.stop()
  queue.add('c')
  queue.addAfter('d', 1)
  await new Promise((resolve) => setTimeout(resolve, 20))
  expect(runs).toBe(0)
})

test('long work is divided into turns, so that other tasks run in between', async () => {
  let runs = 0
  startQueue(() => {
    const end = performance.now() + 2
    while (performance.now() < end) runs += 0
    runs++
  })
  for (let key = 0; key < 40; key++) queue.add(String(key))
  await turn()
  await turn()
  expect(runs).toBeGreaterThan(0)
  expect(runs).toBeLessThan(40)
  await until(() => runs === 40)
})
