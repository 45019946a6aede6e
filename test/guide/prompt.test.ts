import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type EndedCommand, Prompt } from '../../guide/server/prompt.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** What has happened, in order: how a line that was sent has ended, or that the shell waits. */
function waits(prompt: Prompt) {
  const over: (EndedCommand | 'waits')[] = []
  return {
    over,
    wait: () => void prompt.wait().then(() => over.push('waits')),
    enter: (line: string, ahead: string[] = []) =>
      void prompt.entered(line, ahead).then((ended) => over.push(ended)),
  }
}
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms)

test('the guide’s bash: a wait is over at the next prompt, with the status of the command', async () => {
  const prompt = new Prompt(true)
  const { over, wait, enter } = waits(prompt)
  wait()
  await pass(5000)
  expect(over).toEqual([])
  expect(prompt.ended({ status: 0 })).toBe(false)
  prompt.shown(true)
  await pass(0)
  expect(over).toEqual(['waits'])
  enter('(exit 7)')
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
  expect(over).toEqual(['waits', { status: 7 }])
})

test('one piece of output ends several commands: each line has the status of its own, behind what was typed ahead', async () => {
  const prompt = new Prompt(true)
  const { over, wait, enter } = waits(prompt)
  const runs = (command: string, status: number) => {
    prompt.started(true, command)
    prompt.ended({ status })
    prompt.shown(true)
  }
  prompt.shown(true)
  enter('make web')
  // Nothing else runs between these marks.
  runs('make web', 0)
  runs('(exit 9)', 9)
  prompt.started(true, '(exit 8)')
  wait()
  await pass(0)
  expect(over).toEqual([{ status: 0 }])
  prompt.ended({ status: 8 })
  prompt.shown(true)
  await pass(0)
  expect(over).toEqual([{ status: 0 }, 'waits'])
  enter('(exit 5)', ['(exit 3)', '(exit 4)'])
  runs('(exit 3)', 3)
  // Drawn again, because the terminal has another size.
  prompt.shown(true)
  runs('(exit 4)', 4)
  await pass(0)
  expect(over).toHaveLength(2)
  runs('(exit 5)', 5)
  await pass(0)
  expect(over.at(-1)).toEqual({ status: 5 })
})

test('the guide’s bash without its prompt commands: the next prompt ends a command, without a status', async () => {
  const prompt = new Prompt(true)
  const { over, enter } = waits(prompt)
  prompt.shown(true)
  enter('false')
  prompt.started(true)
  await pass(60_000)
  expect(over).toEqual([])
  prompt.shown(true)
  await pass(0)
  expect(over).toEqual([{}])
})

test('another shell that reports when it waits: the status is not known', async () => {
  const prompt = new Prompt(false)
  const { over, wait, enter } = waits(prompt)
  prompt.shown(false)
  enter('false')
  prompt.started(false)
  wait()
  await pass(60_000)
  expect(over).toEqual([])
  prompt.shown(false)
  await pass(0)
  expect(over).toEqual([{}, 'waits'])
})

test('a shell that never reports is given a moment', async () => {
  const { over, wait } = waits(new Prompt(false))
  wait()
  await pass(1000)
  expect(over).toEqual([])
  await pass(1000)
  expect(over).toEqual(['waits'])
})

test('a shell that has ended is waited for no longer', async () => {
  const prompt = new Prompt(true)
  const { over, wait } = waits(prompt)
  prompt.started(true)
  wait()
  prompt.gone()
  await pass(0)
  expect(over).toEqual(['waits'])
})
