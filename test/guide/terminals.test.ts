import { spawnSync } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import headless from '@xterm/headless'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { TerminalsPush } from '../../guide/protocol.ts'
import { Terminals } from '../../guide/server/terminals.ts'
import { processStartTime } from '../../host/live-process.ts'
import { waitFor } from '../../host/wait.ts'

/** A page that looks at a terminal. */
class Page extends EventEmitter {
  output = ''
  readonly OPEN = 1
  readonly readyState = 1
  bufferedAmount = 0
  terminated = false
  send(data: Buffer): void {
    this.output += data.toString()
  }
  close(): void {
    this.emit('close')
  }
  terminate(): void {
    this.terminated = true
    this.close()
  }
  type(text: string): void {
    this.emit('message', Buffer.from(text), true)
  }
  tell(text: string): void {
    this.emit('message', Buffer.from(text), false)
  }
  async shows(what: string | RegExp): Promise<RegExpExecArray | null> {
    const pattern = typeof what === 'string' ? new RegExp(what) : what
    await waitFor(`${what}`, 10_000, async () => pattern.test(this.output))
    return pattern.exec(this.output)
  }
  /** The lines that a terminal shows which is given all that was sent. */
  async screen(): Promise<string[]> {
    const terminal = new headless.Terminal({ cols: 100, rows: 30, allowProposedApi: true })
    await new Promise<void>((resolve) => terminal.write(this.output, resolve))
    const { active } = terminal.buffer
    return Array.from(
      { length: active.length },
      (_, row) => active.getLine(row)?.translateToString(true) ?? '',
    )
  }
}

let pushes: TerminalsPush[]
let commands: (string | undefined)[]
let terminals: Terminals

beforeEach(() => {
  pushes = []
  commands = []
  terminals = new Terminals({
    commandFor: () => ({
      file: '/bin/sh',
      args: [],
      env: { ...process.env, PS1: '$ ' },
      cwd: '/',
    }),
    onChange: (push) => pushes.push(push),
    reportsOf: () => ({
      started: (command) => commands.push(command),
      ended: () => {},
      interrupted: () => {},
    }),
  })
})
afterEach(() => terminals.end())

function pageOf(id: string): Page {
  const page = new Page()
  expect(terminals.attach(id, page)).toBe(true)
  return page
}

test('what one page types, all see, and one that comes later is told what was printed', async () => {
  const id = await terminals.open('host')
  const [one, other] = [pageOf(id), pageOf(id)]
  one.type('echo a$((1 + 1))z\r')
  for (const page of [one, other]) await page.shows('a2z')
  expect(commands).toHaveLength(1)
  const late = pageOf(id)
  await late.shows('a2z')
  expect(await late.screen()).toEqual(await one.screen())
  late.type('echo b$((2 + 2))z\r')
  await one.shows('b4z')
})

test('it has the size that a page shows, and no other words of a page change anything', async () => {
  const page = pageOf(await terminals.open('host'))
  for (const text of [
    '',
    '{',
    '{"columns":-1,"rows":5}',
    '{"columns":"9","rows":5}',
    '[]',
    '{"columns":90,"rows":9,"x":1}',
  ])
    page.tell(text)
  page.tell('{"columns":77,"rows":11}')
  page.type('stty size\r')
  await page.shows('11 77')
})

test('a page that comes later is sent the screen, and none of the sequences that led to it', async () => {
  const id = await terminals.open('host')
  const page = pageOf(id)
  const link = '\\033]8;;http://evil.example\\007text\\033]8;;\\007'
  page.type(
    `printf '\\033]52;c;aGk=\\007\\033]0;evil\\007${link}\\033[c\\033[?1049h\\033[5;10Hd%se' on; cat\r`,
  )
  await page.shows('done')
  const late = pageOf(id)
  await late.shows('done')
  expect(await late.screen()).toEqual(await page.screen())
  expect((await late.screen())[4]).toBe('         done')
  for (const part of ['\x1b]', '\x1b[c']) expect(late.output).not.toContain(part)
})

test('huge output: its end is kept, and a page that does not read it is let go', async () => {
  const id = await terminals.open('host')
  const [page, stuck] = [pageOf(id), pageOf(id)]
  page.type('seq 300000; echo do$((0))ne\r')
  await page.shows('300\r\n')
  stuck.bufferedAmount = 2 ** 30
  await page.shows('do0ne')
  expect(stuck.terminated).toBe(true)
  const late = pageOf(id)
  await late.shows('do0ne')
  expect(late.output.length).toBeLessThan(50_000)
  expect(await late.screen()).toContain('300000')
})

test('a command is known that was typed where the shell edits lines, unless only the shell knows it', async () => {
  const id = await terminals.open('host')
  const page = pageOf(id)
  page.type('unknown\r')
  page.type("exec bash --norc; PS1='> '\r")
  await page.shows(/\x1b\[\?2004h/)
  page.type('echo one')
  page.type('x\x7f; read -rs secret\r')
  await page.shows('one')
  page.type('secret\r')
  page.type('echo t\x1b[D\x1b[Cwo\r')
  await page.shows('two')
  page.type('wrong\x15echo three\r')
  await page.shows('three')
  // The next command may begin in the same message.
  page.type('echo fo$((0))ur\recho fi')
  await page.shows(/fo0ur\r\n\x1b\[\?2004h/)
  page.type('ve\r')
  const lines = [
    'echo one; read -rs secret',
    undefined,
    undefined,
    'echo three',
    'echo fo$((0))ur',
    'echo five',
  ]
  expect(commands).toEqual([undefined, undefined, ...lines])
})

test('a page may resize a terminal that is closed, although its process is still running', async () => {
  const page = pageOf(await terminals.open('host'))
  page.type('trap "" HUP; echo re$((1))ady; exec sleep 100 <&- >&- 2>&-\r')
  await page.shows('re1ady')
  const until = Date.now() + 500
  while (Date.now() < until) {
    page.tell('{"columns":77,"rows":11}')
    await pause(10)
  }
})

test('a shell that has ended says so, also to a page that comes later; Enter starts it again', async () => {
  const id = await terminals.open('host')
  const page = pageOf(id)
  page.type('exit 3\r')
  await page.shows('The shell at "host" has ended with exit code 3')
  const late = pageOf(id)
  await late.shows('has ended with exit code 3')
  late.type('x')
  late.tell('{"columns":81,"rows":12}')
  late.type('\r')
  page.type('stty size; echo a$((1 + 1))z\r')
  for (const one of [page, late]) await one.shows(/12 81[\s\S]*a2z/)
})

test('what a shell printed last is shown, also where the server reads it after the shell has ended', async () => {
  const page = pageOf(await terminals.open('host'))
  page.type('echo re$((1))ady\r')
  await page.shows('re1ady')
  page.type('seq 3000; echo la$((0))st; exit\r')
  // Nothing is read meanwhile: a terminal holds a few thousand bytes, the rest waits in the shell
  // or in the kernel.
  spawnSync('sleep', ['0.3'])
  await page.shows('has ended with exit code 0')
  expect(page.output).toMatch(/\r\n3000\r\nla0st\r\n/)
})

test('a closed terminal is gone', async () => {
  const id = await terminals.open('host')
  terminals.close(id)
  expect(pushes.at(-1)?.terminals).toEqual([])
  expect(terminals.attach(id, new Page())).toBe(false)
  expect(() => terminals.close(id)).toThrow(/no terminal/)
})

test('terminals of one place have titles of their own', async () => {
  for (let count = 0; count < 2; count++) await terminals.open('host')
  expect(pushes.at(-1)?.terminals).toEqual([
    { id: 't1', place: 'host', title: 'host' },
    { id: 't2', place: 'host', title: 'host (2)' },
  ])
  terminals.close('t1')
  for (let count = 0; count < 2; count++) await terminals.open('host')
  expect(pushes.at(-1)?.terminals.map(({ title }) => title)).toEqual([
    'host (2)',
    'host',
    'host (3)',
  ])
})

test('there are at most twelve, also when more are asked for at once', async () => {
  const asked = await Promise.allSettled(Array.from({ length: 20 }, () => terminals.open('host')))
  expect(asked.filter(({ status }) => status === 'fulfilled')).toHaveLength(12)
  await expect(terminals.open('host')).rejects.toThrow(
    'There are 12 terminals already: close one of them before you open another.',
  )
  terminals.close('t3')
  await terminals.open('host')
  expect(pushes.at(-1)?.terminals).toHaveLength(12)
})

test.each([
  ['a job in the background', 'sleep 1000 &'],
  ['one that ignores a hang-up', 'nohup sleep 1000 >/dev/null 2>&1 &'],
  ['a shell in the shell', 'sh -c \'trap "" HUP TERM INT; sleep 1000\' &'],
])('the end leaves nothing behind: %s', async (_what, command) => {
  const page = pageOf(await terminals.open('host'))
  page.type(`${command}\r`)
  page.type('echo "<$!>" "[$$]"\r')
  const [, job = '', shell = ''] = (await page.shows(/<(\d+)> \[(\d+)\]/)) ?? []
  expect(processStartTime(Number(job))).toBeDefined()
  const listeners = process.listenerCount('exit')
  await terminals.end()
  expect(process.listenerCount('exit')).toBe(listeners - 1)
  for (const pid of [job, shell]) expect(processStartTime(Number(pid))).toBeUndefined()
})
