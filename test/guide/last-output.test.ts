import { spawn } from '@lydell/node-pty'
import { expect, test } from 'vitest'
import { showLastOutput } from '../../guide/server/last-output.ts'

/**
 * What is shown of a shell whose output is not read until node-pty gives up, 200 ms after its
 * exit.
 */
async function shownOfUnread(command: string): Promise<string> {
  const pty = spawn('/bin/sh', ['-c', command], { cols: 80, rows: 24 })
  let shown = ''
  const show = (text: string) => {
    shown += text
  }
  pty.onData(show)
  showLastOutput(pty, show)
  pty.pause()
  await new Promise((resolve) => pty.onExit(resolve))
  return shown
}

test('what was not read when a shell ends is shown, once and in its order', async () => {
  const lines = Array.from({ length: 500 }, (_, index) => `${index + 1}\r\n`)
  expect(await shownOfUnread('seq 500')).toBe(lines.join(''))
})

test('of a process that goes on printing after its shell, only the beginning is read', async () => {
  const shown = await shownOfUnread(
    "trap '' HUP; timeout 20 sh -c 'while sleep 0.01; do seq 1000; done' & echo $!",
  )
  expect(shown).toMatch(/^\d+\r\n/)
  process.kill(Number.parseInt(shown, 10), 'SIGTERM')
})
