import { beforeEach, expect, test } from 'vitest'
import type { RunsPush } from '../../guide/protocol.ts'
import type { EndedCommand } from '../../guide/server/prompt.ts'
import { Runs, typedLines } from '../../guide/server/runs.ts'

let shown: RunsPush
let runs: Runs
/** The lines that were typed, and what ends the last one. */
let typed: string[]
let end: (command: EndedCommand) => void

beforeEach(() => {
  shown = {}
  typed = []
  runs = new Runs((push) => {
    shown = push
  })
})

const enter = async (line: string, isWanted: () => boolean): Promise<EndedCommand> => {
  await Promise.resolve()
  if (!isWanted()) return {}
  typed.push(line)
  return new Promise((resolve) => {
    end = resolve
  })
}
const settled = async () => {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve()
}
const states = (key: string) =>
  shown[key]?.lines.map(({ state, status }) => (status ? `${state} ${status}` : state))

test('blocks run one after the other, line by line, with the status of each', async () => {
  runs.add('one', 'a\nb', 't1', enter)
  runs.add('two', 'c', 't1', enter)
  await settled()
  expect([typed, states('one'), states('two')]).toEqual([['a'], ['running', 'queued'], ['queued']])
  end({ status: 0 })
  await settled()
  end({ status: 0 })
  await settled()
  expect([typed, states('one'), states('two')]).toEqual([
    ['a', 'b', 'c'],
    ['succeeded', 'succeeded'],
    ['running'],
  ])
  end({})
  await settled()
  expect(states('two')).toEqual(['ended'])
})

test('after a check that failed, the rest of its block is run', async () => {
  runs.add('one', 'make check-1 STEP=web\nb', 't1', enter)
  await settled()
  end({ status: 2 })
  await settled()
  end({ status: 0 })
  await settled()
  expect([typed, states('one')]).toEqual([
    ['make check-1 STEP=web', 'b'],
    ['failed 2', 'succeeded'],
  ])
})

test('a line that failed: the rest of its block is not run, the next block is', async () => {
  runs.add('one', 'a\nb', 't1', enter)
  runs.add('two', 'c', 't1', enter)
  await settled()
  end({ status: 28 })
  await settled()
  expect([typed, states('one'), states('two')]).toEqual([
    ['a', 'c'],
    ['failed 28', 'not run'],
    ['running'],
  ])
})

test('a click storm runs each block once; when it is done, it can be run again', async () => {
  for (let click = 0; click < 20; click++) runs.add('one', 'a', 't1', enter)
  await settled()
  end({ status: 0 })
  await settled()
  expect(typed).toEqual(['a'])
  runs.add('one', 'a', 't1', enter)
  await settled()
  expect([typed, states('one')]).toEqual([['a', 'a'], ['running']])
})

test('one block is cancelled, or all of a terminal; those of another terminal go on', async () => {
  for (const [key, terminal] of [
    ['one', 't1'],
    ['two', 't1'],
    ['three', 't1'],
    ['other', 't2'],
  ] as const)
    runs.add(key, `${key}1\n${key}2`, terminal, enter)
  await settled()
  expect(runs.cancel('two')).toBeUndefined()
  expect(runs.cancel('one')).toBe('t1')
  runs.cancelAll('t1')
  expect([states('one'), states('two'), states('three'), states('other')]).toEqual([
    ['running', 'not run'],
    ['not run', 'not run'],
    ['not run', 'not run'],
    ['running', 'queued'],
  ])
})

test('a terminal that is gone runs nothing', async () => {
  runs.add('one', 'a\nb', 't1', async () => ({}))
  await settled()
  expect(states('one')).toEqual(['not run', 'not run'])
})

test('the marks of a lab that is reset are forgotten', async () => {
  runs.add('2/web/task/1', 'a', 't1', enter)
  runs.add('3/web/task/1', 'b', 't1', enter)
  runs.forget('2/')
  expect(Object.keys(shown)).toEqual(['3/web/task/1'])
})

test('a line that ends in a backslash continues in the next one', () => {
  expect(typedLines('a \\\n  b\n\nc')).toEqual(['a \\\n  b', 'c'])
})
