import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { FifoPool, outputEnded } from '../../machine/fifo-pool.ts'

let folder: string
let pool: FifoPool

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fifo-pool-'))
  pool = new FifoPool(folder)
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** Keeps this process from doing anything else, as a machine does that others keep busy. */
function beBusy(ms: number): void {
  const end = Date.now() + ms
  while (Date.now() < end);
}

/**
 * What comes of a command's output; `slow`: its reader takes nothing for so long after the first
 * bytes.
 */
async function outputOf(script: string, { slow = 0, busy = 0 } = {}): Promise<string> {
  const pipe = pool.output()
  const child = spawn('sh', ['-c', script], { stdio: ['ignore', pipe.theirs, 'ignore'] })
  closeSync(pipe.theirs)
  let text = ''
  pipe.output.on('data', (bytes: Buffer) => {
    text += bytes
    if (slow === 0) return
    pipe.output.pause()
    setTimeout(() => pipe.output.resume(), slow)
  })
  await once(child, 'exit')
  const ended = outputEnded([pipe])
  beBusy(busy)
  await ended
  return text
}

const lines = (count: number) =>
  `${Array.from({ length: count }, (_, index) => index + 1).join('\n')}\n`

test('the output of a command arrives before its end is reported, even if this process had no time to read it', async () => {
  expect(await outputOf('seq 10000')).toBe(lines(10_000))
  expect(await outputOf('sleep 5 & seq 5000', { busy: 500 })).toBe(lines(5000))
})

test('a slow reader loses nothing, even if a background process keeps the pipe open', async () => {
  expect(await outputOf('sleep 5 & seq 10000', { slow: 600 })).toBe(lines(10_000))
})

test('a background process does not delay the end of its command, and is not ended', async () => {
  const late = `until [ -e '${folder}/ended' ]; do sleep 0.05; done; echo late; echo >'${folder}/alive'`
  expect(await outputOf(`(${late}) & echo now`)).toBe('now\n')
  writeFileSync(join(folder, 'ended'), '')
  await expect.poll(() => outputOf(`cat '${folder}/alive' || echo none`)).toBe('\n')
})
