import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createPlainServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { which } from 'zx'
import {
  type ClientAction,
  type HttpRequests,
  httpRequests,
  readReplies,
  requestsInOrder,
} from '../../grading/http-requests.ts'
import { timeoutScale } from '../../host/wait.ts'

const asked: string[] = []
const web = createServer((request, response) => {
  asked.push(`${request.socket.remoteAddress} ${request.url}`)
  response.statusCode = request.url?.includes('missing') ? 404 : 200
  response.end('first line\nsecond line\n')
})
/** Answers as a shell script does: no lengths, and lines that end in LF alone. */
const plain = createPlainServer((socket) => {
  socket.on('error', () => {})
  socket.once('data', () => socket.end('HTTP/1.0 200 OK\n\nagent of worker-2\n'))
})
const silent = createPlainServer((socket) => socket.on('error', () => {}))
const rude = createPlainServer((socket) => {
  socket.on('error', () => {})
  socket.once('data', () => socket.end())
})
const ports: Record<string, number> = {}
const bin = mkdtempSync(join(tmpdir(), 'no-perl-'))

beforeAll(async () => {
  for (const [name, server] of Object.entries({ web, plain, silent, rude }) as [string, Server][]) {
    await new Promise<void>((listening) => server.listen(0, '0.0.0.0', listening))
    ports[name] = (server.address() as AddressInfo).port
  }
  const closed = createPlainServer()
  await new Promise<void>((listening) => closed.listen(0, '127.0.0.1', listening))
  ports.closed = (closed.address() as AddressInfo).port
  await new Promise((done) => closed.close(done))
  for (const program of ['curl', 'sed']) symlinkSync(await which(program), join(bin, program))
})
afterAll(() => {
  for (const server of [web, plain, silent, rude]) server.close()
  web.closeAllConnections()
  rmSync(bin, { recursive: true, force: true })
})

const to = (name: string, more: Partial<HttpRequests> = {}): HttpRequests => ({
  address: '127.0.0.1',
  port: ports[name] ?? 0,
  ...more,
})

const ways: [string, string | undefined][] = [['perl', process.env.PATH]]
if (await which('curl', { nothrow: true })) ways.push(['curl', bin])

describe.each(ways)('by %s', (_program, PATH) => {
  async function send(...requests: HttpRequests[]) {
    asked.length = 0
    const env = { ...process.env, PATH }
    const { stdout } = await promisify(execFile)(
      await which('sh'),
      ['-c', httpRequests(requests)],
      { env },
    )
    return readReplies(stdout).sort((one, other) => one.index - other.index)
  }

  test('requests over separate connections, with numbers in their paths', async () => {
    const replies = await send(to('web', { path: '/?token=', times: 3, source: '127.0.0.5' }))
    expect(replies).toHaveLength(3)
    for (const reply of replies)
      expect(reply).toMatchObject({ index: 0, status: 200, connects: 1, code: 0, error: '' })
    expect(new Set(replies.map(({ port }) => port)).size).toBe(3)
    expect(asked).toEqual([1, 2, 3].map((number) => `127.0.0.5 /?token=${number}`))
  })

  test('all requests over one connection', async () => {
    const replies = await send(to('web', { times: 3, keep: true }))
    expect(replies.map(({ status, connects }) => [status, connects])).toEqual([
      [200, 1],
      [200, 0],
      [200, 0],
    ])
    expect(new Set(replies.map(({ port }) => port)).size).toBe(1)
  })

  test('statuses and first lines of standard and of unusual HTTP answers', async () => {
    const replies = await send(to('web', { path: '/missing' }), to('plain'))
    expect(replies).toMatchObject([
      { index: 0, status: 404, line: 'first line' },
      { index: 1, status: 200, line: 'agent of worker-2' },
    ])
  })

  test('errors are distinguished, and no series waits for another', async () => {
    const began = performance.now()
    const replies = await send(
      to('closed'),
      to('silent', { seconds: 0.4 }),
      to('rude'),
      to('silent', { seconds: 0.4, times: 3 }),
      to('silent', { seconds: 0.4, times: 2, insist: true }),
    )
    const codes = (index: number) =>
      replies.filter((reply) => reply.index === index).map(({ code }) => code)
    expect([0, 1, 2, 3, 4].map(codes)).toEqual([[7], [28], [52], [28], [28, 28]])
    // Whether a connection was made is told by the port that it was made from.
    for (const { index, port } of replies) expect(port > 0, `request ${index}`).toBe(index !== 0)
    for (const { status, error } of replies) expect([status, error === '']).toEqual([0, false])
    expect(performance.now() - began).toBeLessThan(3000 * timeoutScale())
  })
})

test("an answer's body is not mistaken for a result line, and other output is ignored", () => {
  const output = { code: 7, error: 'Connection refused', line: '', resent: 0 }
  const reply = { index: 1, status: 0, port: 0, connects: 1, ...output }
  expect(
    readReplies('hello\n#request\t1\t0\t0\t1\t7\tConnection refused\t\nbye\n#requests\n'),
  ).toEqual([reply])
})

describe('requests in order', () => {
  /** Answers as the real servers of lab 4 do, `NODE:PORT`. */
  const named = createServer((request, response) => {
    asked.push(`${request.socket.remoteAddress} ${openConnections()}`)
    response.end(`${request.headers.host?.startsWith('127.0.0.2') ? 'two' : 'one'}:8090\n`)
  })
  /**
   * The kernel's count of the server's connections (state 01): that of Node.js learns of a reset
   * later than of the next request.
   */
  function openConnections(): number {
    const port = (ports.named ?? 0).toString(16).toUpperCase().padStart(4, '0')
    const own = new RegExp(`^ *\\d+: [0-9A-F]{8}:${port} \\S+ 01 `)
    return readFileSync('/proc/net/tcp', 'utf8')
      .split('\n')
      .filter((line) => own.test(line)).length
  }
  beforeAll(async () => {
    await new Promise<void>((listening) => named.listen(0, '0.0.0.0', listening))
    ports.named = (named.address() as AddressInfo).port
  })
  afterAll(() => {
    named.close()
    named.closeAllConnections()
  })

  const at = (address: string, more = {}) => ({ address, port: ports.named ?? 0, ...more })

  async function perform(...actions: ClientAction[]) {
    asked.length = 0
    const { stdout } = await promisify(execFile)(await which('sh'), [
      '-c',
      requestsInOrder(actions),
    ])
    return readReplies(stdout)
  }

  test('each waits for the answer of the one before, and its connection is closed then', async () => {
    const replies = await perform(at('127.0.0.1'), at('127.0.0.2', { source: '127.0.0.7' }))
    expect(replies.map(({ index, line }) => [index, line])).toEqual([
      [0, 'one:8090'],
      [1, 'two:8090'],
    ])
    expect(asked).toEqual(['127.0.0.1 1', '127.0.0.7 1'])
  })

  test('connections are held until they are released by name, or all of them', async () => {
    const [one, two] = [at('127.0.0.1', { hold: true }), at('127.0.0.2', { hold: true })]
    await perform(one, two, one, at('127.0.0.1'))
    expect(asked.map((text) => text.split(' ')[1])).toEqual(['1', '2', '3', '4'])
    await perform(one, two, one, { release: 'one' }, at('127.0.0.2'))
    expect(asked.at(-1)).toBe('127.0.0.1 2')
    await perform(one, two, one, 'release all', at('127.0.0.2'))
    expect(asked.at(-1)).toBe('127.0.0.1 1')
  })

  test('nothing follows a request without an answer, and its time is limited', async () => {
    const began = performance.now()
    const toSilent = { address: '127.0.0.1', port: ports.silent ?? 0 }
    const replies = await perform(at('127.0.0.1'), toSilent, at('127.0.0.1'))
    expect(replies.map(({ index, status, code }) => [index, status, code])).toEqual([
      [0, 200, 0],
      [1, 0, 28],
    ])
    expect(performance.now() - began).toBeLessThan(3000 * timeoutScale())
    const toClosed = { address: '127.0.0.1', port: ports.closed ?? 0 }
    expect(await perform('release all', toClosed, at('127.0.0.1'))).toMatchObject([
      { index: 1, status: 0, code: 7 },
    ])
  })
})
