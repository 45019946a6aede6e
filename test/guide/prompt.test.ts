import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type EndedCommand, Prompt } from '../../guide/server/prompt.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** What has happened, in order: how the command before ended, for each wait that is over. */
function waits(prompt: Prompt) {
  const over: EndedCommand[] = []
  return { over, wait: () => void prompt.wait().then((ended) => over.push(ended)) }
}
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)

test('the guide’s bash: a wait is over at the next prompt, with the status of the command', async () => {
  const prompt = new Prompt(true)
  const { over, wait } = waits(prompt)
  wait()
  await pass(5000)
  expect(over).toEqual([])
  expect(prompt.ended({ status: 0 })).toBe(false)
  prompt.shown(true)
  await pass(0)
  expect(over).toEqual([{}])
  prompt.left()
  wait()
  // Drawn again, because the terminal has another size; readline's own mode changes, too.
  prompt.shown(true)
  prompt.started(false)
  prompt.started(true)
  prompt.shown(false)
  await pass(60_000)
  expect(over).toHaveLength(1)
  expect(prompt.ended({ status: 7 })).toBe(true)
  prompt.shown(true)
  await pass(0)
  expect(over).toEqual([{}, { status: 7 }])
})

test('the guide’s bash without its prompt commands: the next prompt ends a command, without a status', async () => {
  const prompt = new Prompt(true)
  const { over, wait } = waits(prompt)
  prompt.shown(true)
  prompt.left()
  prompt.started(true)
  wait()
  await pass(60_000)
  expect(over).toEqual([])
  prompt.shown(true)
  await pass(0)
  expect(over).toEqual([{}])
})

test('another shell that reports when it waits: the status is not known', async () => {
  const prompt = new Prompt(false)
  const { over, wait } = waits(prompt)
  prompt.shown(false)
  prompt.left()
  prompt.started(false)
  wait()
  wait()
  await pass(60_000)
  expect(over).toEqual([])
  prompt.shown(false)
  await pass(0)
  expect(over).toEqual([{}, {}])
})

test('a shell that never reports is given a moment', async () => {
  const { over, wait } = waits(new Prompt(false))
  wait()
  await pass(1000)
  expect(over).toEqual([])
  await pass(1000)
  expect(over).toEqual([{}])
})

test('a shell that has ended is waited for no longer', async () => {
  const prompt = new Prompt(true)
  const { over, wait } = waits(prompt)
  prompt.started(true)
  wait()
  prompt.gone()
  await pass(0)
  expect(over).toEqual([{}])
})
