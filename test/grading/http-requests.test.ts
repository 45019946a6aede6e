import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createPlainServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { which } from 'zx'
import { type HttpRequests, httpRequests, readReplies } from '../../grading/http-requests.ts'

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
    expect(performance.now() - began).toBeLessThan(3000)
  })
})

test("an answer's body is not mistaken for a result line, and other output is ignored", () => {
  const said = { code: 7, error: 'Connection refused', line: '', resent: 0 }
  const reply = { index: 1, status: 0, port: 0, connects: 1, ...said }
  expect(
    readReplies('hello\n#request\t1\t0\t0\t1\t7\tConnection refused\t\nbye\n#requests\n'),
  ).toEqual([reply])
})
