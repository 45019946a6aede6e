import { once } from 'node:events'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LogBuffer, logStream } from '../../kubelet/log-buffer.ts'
import { textOf, wholeLog } from './guest-cluster.ts'

const request = wholeLog('p')

test('output that arrives in parts of any size is unchanged', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.string({ unit: fc.constantFrom('a', '\n', 'ä') })),
      async (chunks) => {
        const log = new LogBuffer()
        for (const chunk of chunks) log.write('stdout', chunk)
        log.end()
        expect(await textOf(logStream(log, request))).toBe(chunks.join(''))
      },
    ),
  )
})

test('lines of the two outputs are not mixed', async () => {
  const log = new LogBuffer()
  log.write('stdout', 'one ')
  log.write('stderr', 'error\n')
  log.write('stdout', 'line\n')
  expect(await textOf(logStream(log, request))).toBe('error\none line\n')
})

test('a log is printed from its last lines on, and followed until the container ends', async () => {
  const log = new LogBuffer()
  log.write('stdout', '1\n2\n3\n')
  const followed = textOf(logStream(log, { ...request, tailLines: 1, follow: true }))
  log.write('stdout', '4\n')
  log.end()
  expect(await followed).toBe('3\n4\n')
  expect(await textOf(logStream(log, { ...request, tailLines: 0 }))).toBe('')
})

test.each([
  ['no line break', 'y'.repeat(65_536)],
  // One minute if each new line moved all that are kept.
  ['many short lines', 'message\n'.repeat(8192)],
])(
  'of endless output with %s, the last 4 MB are kept',
  (_, chunk) => {
    const log = new LogBuffer()
    for (let count = 0; count < 90; count++) log.write('stdout', chunk)
    const kept = log.all().reduce((sum, { text }) => sum + text.length, 0)
    expect(kept).toBeGreaterThan(4_000_000)
    expect(kept).toBeLessThan(5_500_000)
  },
  30_000,
)

test('endless output is not kept for a follower that does not read', async () => {
  const log = new LogBuffer()
  const out = logStream(log, { ...request, follow: true })
  for (let count = 0; count < 2048; count++) log.write('stdout', `${'y'.repeat(16_383)}\n`)
  log.end()
  expect((await textOf(out)).length).toBeLessThan(5_500_000)
})

test('a followed log of limited size ends there, whatever comes next', async () => {
  const log = new LogBuffer()
  const followed = textOf(logStream(log, { ...request, follow: true, limitBytes: 5 }))
  for (const text of ['one\n', 'two\n', 'three\n', 'four\n']) log.write('stdout', text)
  expect(await followed).toBe('one\nt')
})

test('the memory of a log is bounded by its text, also if all lines are short', () => {
  const log = new LogBuffer()
  for (let count = 0; count < 200; count++) log.write('stdout', 'y\n'.repeat(32_768))
  expect(log.all().length).toBeLessThan(500)
  const lines = log.all().flatMap(({ text }) => text.split(/(?<=\n)/))
  expect(lines.length).toBeGreaterThan(2_000_000)
  expect(new Set(lines)).toEqual(new Set(['y\n']))
})

test('a log is written when it is read: a client that stops gets none of it', async () => {
  const log = new LogBuffer()
  for (let count = 0; count < 100; count++) log.write('stdout', 'y\n'.repeat(32_768))
  log.end()
  const out = logStream(log, { ...request, timestamps: true })
  await once(out, 'readable')
  // Each line has a time of 31 bytes, 80 MB in all.
  expect(out.readableLength).toBeLessThan(4_000_000)
  const lines = (await textOf(out)).trimEnd().split('\n')
  expect(lines.length).toBeGreaterThan(2_000_000)
  expect(lines.every((line) => line.length === 32 && line.endsWith('Z y'))).toBe(true)
})

test.each([
  [0, ''],
  [1, '5\n'],
  [3, '3\n4\n5\n'],
  [9, '1\n2\n3\n4\n5\n'],
])('the last %i lines', async (tailLines, text) => {
  const log = new LogBuffer()
  log.write('stdout', '1\n')
  log.write('stdout', '2\n3\n4')
  log.write('stdout', '\n5\n')
  log.end()
  expect(await textOf(logStream(log, { ...request, tailLines }))).toBe(text)
})
