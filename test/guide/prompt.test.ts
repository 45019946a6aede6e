import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Prompt } from '../../guide/page/prompt.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** What has happened, in order: a name for each wait that is over. */
function waits(prompt: Prompt) {
  const over: string[] = []
  const wait = (name: string) => void prompt.wait().then(() => over.push(name))
  return { over, wait }
}
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)

test('all that wait for a command go on when the shell waits for one, also those that were there first', async () => {
  const prompt = new Prompt()
  const { over, wait } = waits(prompt)
  prompt.report(true)
  prompt.report(false)
  wait('first')
  wait('second')
  await pass(60_000)
  expect(over).toEqual([])
  prompt.report(true)
  wait('third')
  await pass(0)
  expect(over.sort()).toEqual(['first', 'second', 'third'])
  prompt.leave()
  wait('fourth')
  await pass(60_000)
  expect(over).toHaveLength(3)
})

test('a shell that never reports is given a moment', async () => {
  const { over, wait } = waits(new Prompt())
  wait('one')
  await pass(1000)
  expect(over).toEqual([])
  await pass(1000)
  expect(over).toEqual(['one'])
})

test('a terminal that is closed is waited for no longer', async () => {
  const prompt = new Prompt()
  const { over, wait } = waits(prompt)
  prompt.report(false)
  wait('one')
  prompt.release()
  await pass(0)
  expect(over).toEqual(['one'])
})
