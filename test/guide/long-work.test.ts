import { expect, test } from 'vitest'
import { LongWork } from '../../guide/server/long-work.ts'
import { silent } from '../../host/progress.ts'

test('long work is shown by its name and its parts, and excludes other work until it is done', async () => {
  const shown: (string | undefined)[] = []
  const work = new LongWork(() => shown.push(work.shown?.name))
  const progress = work.progress(silent)
  progress.start('before any work')
  const done = work.do('Resetting', async () => {
    progress.start('Deleting \u001b[31mPods')
    await expect(work.do('Checking', async () => 1)).rejects.toThrow(
      'Wait until this is done: Resetting.',
    )
    progress.end(true)
    work.tell('waiting, Pod web is ending')
    return 2
  })
  expect(work.isBusy).toBe(true)
  expect(await done).toBe(2)
  expect(work.isBusy).toBe(false)
  expect(shown).toEqual([
    'Resetting',
    expect.stringMatching(/^Resetting: Deleting .*Pods$/),
    'Resetting',
    'Resetting: waiting, Pod web is ending',
    undefined,
  ])
  work.tell('nothing, because no work is done')
  expect(work.shown).toBeUndefined()
  expect(shown.join()).not.toContain('\u001b')
})

test('work that fails tells why in one line, and other work can begin', async () => {
  const work = new LongWork(() => undefined)
  const fails = work.do('Checking', async () => {
    throw new Error('No reply.\n    at somewhere')
  })
  await expect(fails).rejects.toThrow(/^No reply\.$/)
  expect(await work.do('Resetting', async () => 1)).toBe(1)
})

test('what comes during other work can wait until that has ended, also if it fails', async () => {
  const work = new LongWork(() => undefined)
  let end: (error?: Error) => void = () => undefined
  for (const error of [undefined, new Error('no nodes')]) {
    const order: string[] = []
    const grading = work.do('Grading', () =>
      new Promise<void>((resolve, reject) => {
        end = (reason) => (reason ? reject(reason) : resolve())
      }).finally(() => order.push('graded')),
    )
    const answered = work.doNext('Checking the answer', async () => order.push('answered'))
    const opened = work.doNext('Opening lab 3', async () => order.push('opened'))
    expect(work.shown?.name).toBe('Grading')
    end(error)
    await Promise.allSettled([grading, answered, opened])
    expect(order).toEqual(['graded', 'answered', 'opened'])
    expect(await work.doNext('Checking', async () => work.shown?.name)).toBe('Checking')
  }
})
