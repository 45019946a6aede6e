import { EventEmitter } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { WebSocket } from 'ws'
import type { TerminalsPush } from '../../guide/protocol.ts'
import { Terminals } from '../../guide/server/terminals.ts'
import { processStartTime } from '../../host/live-process.ts'
import { waitFor } from '../../host/wait.ts'

/** A page that looks at a terminal. */
class Page extends EventEmitter {
  output = ''
  news: { ended: string }[] = []
  send(data: string | Buffer): void {
    if (typeof data === 'string') this.news.push(JSON.parse(data))
    else this.output += data.toString()
  }
  close(): void {
    this.emit('close')
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
}

let pushes: TerminalsPush[]
let commands: number
let terminals: Terminals

beforeEach(() => {
  pushes = []
  commands = 0
  terminals = new Terminals(
    () => ({ file: '/bin/sh', words: [], env: { ...process.env, PS1: '$ ' }, cwd: '/' }),
    (push) => pushes.push(push),
    () => commands++,
  )
})
afterEach(() => terminals.end())

function look(id: string): Page {
  const page = new Page()
  expect(terminals.attach(id, page as unknown as WebSocket)).toBe(true)
  return page
}

test('what one page types, all see, and one that comes later is told what was printed', async () => {
  const id = await terminals.open('host')
  const [one, other] = [look(id), look(id)]
  one.type('echo a$((1 + 1))z\r')
  for (const page of [one, other]) await page.shows('a2z')
  expect(commands).toBe(1)
  const late = look(id)
  expect(late.output).toBe(one.output)
  late.type('echo b$((2 + 2))z\r')
  await one.shows('b4z')
})

test('it has the size that a page shows, and no other words of a page change anything', async () => {
  const page = look(await terminals.open('host'))
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

test('only the end of what was printed is kept, from the beginning of a line', async () => {
  const id = await terminals.open('host')
  const page = look(id)
  page.type('seq 100000; echo do$((0))ne\r')
  await page.shows('do0ne')
  const late = look(id)
  expect(late.output.length).toBeLessThan(300_000)
  expect(late.output).toMatch(/^\d+\r\n/)
  expect(late.output).toContain('do0ne')
})

test('a shell that has ended says so, also to a page that comes later; a closed terminal is gone', async () => {
  const id = await terminals.open('host')
  const page = look(id)
  page.type('exit 3\r')
  await waitFor('the news', 10_000, async () => page.news.length > 0)
  const ended = { ended: 'The shell at "host" has ended with exit code 3.' }
  expect(page.news).toEqual([ended])
  expect(look(id).news).toEqual([ended])
  page.type('echo x\r')
  terminals.close(id)
  expect(pushes.at(-1)?.terminals).toEqual([])
  expect(terminals.attach(id, new Page() as unknown as WebSocket)).toBe(false)
  expect(() => terminals.close(id)).toThrow(/no terminal/)
})

test('a page may resize a terminal that is closed, although its process is still running', async () => {
  const page = look(await terminals.open('host'))
  page.type('trap "" HUP; echo re$((1))ady; exec sleep 100 <&- >&- 2>&-\r')
  await page.shows('re1ady')
  const until = Date.now() + 500
  while (Date.now() < until) {
    page.tell('{"columns":77,"rows":11}')
    await pause(10)
  }
})

test('terminals of one place have titles of their own, and there is a limit', async () => {
  for (let count = 0; count < 12; count++) await terminals.open('host')
  expect(pushes.at(-1)?.terminals.slice(0, 2)).toEqual([
    { id: 't1', place: 'host', title: 'host' },
    { id: 't2', place: 'host', title: 'host (2)' },
  ])
  await expect(terminals.open('host')).rejects.toThrow('There are 12 terminals already')
})

test.each([
  ['a job in the background', 'sleep 1000 &'],
  ['one that ignores a hang-up', 'nohup sleep 1000 >/dev/null 2>&1 &'],
  ['a shell in the shell', 'sh -c \'trap "" HUP TERM INT; sleep 1000\' &'],
])('the end leaves nothing behind: %s', async (_what, command) => {
  const page = look(await terminals.open('host'))
  page.type(`${command}\r`)
  page.type('echo "<$!>" "[$$]"\r')
  const [, job = '', shell = ''] = (await page.shows(/<(\d+)> \[(\d+)\]/)) ?? []
  expect(processStartTime(Number(job))).toBeDefined()
  await terminals.end()
  for (const pid of [job, shell]) expect(processStartTime(Number(pid))).toBeUndefined()
})
