import { once } from 'node:events'
import { request } from 'node:http'
import { connect as connectTo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { GUIDE_PAGE, type GuideHandler, serveGuide } from '../../guide/server/server.ts'
import { buildPage } from '../../web/page-files.ts'
import type { PageServer } from '../../web/page-server.ts'

const HTML = Buffer.from('<!doctype html><title>page</title>')
const files = new Map([
  ['/', { type: 'text/html; charset=utf-8', body: HTML }],
  ['/main.js', { type: 'text/javascript; charset=utf-8', body: Buffer.from('1') }],
])
const acted: unknown[] = []
const guide: GuideHandler = {
  async perform(name, input) {
    if (name === 'reset') throw new Error('Not now.')
    acted.push([name, input])
    return { verdict: 'passed' }
  },
  join: (page) => page.send('joined'),
  attach(id, page) {
    if (id === 't1') page.send('attached')
    return id === 't1'
  },
}
let server: PageServer
let port: number
let host: string
let cookie: string

interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  body: string
}

function ask(
  path: string,
  headers: Record<string, string> = {},
  method = 'GET',
  body?: string,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path, headers, method }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }),
      )
    })
    asked.on('error', reject).end(body)
  })
}
const post = (name: string, body: string, headers: Record<string, string> = {}) =>
  ask(
    `/api/${name}`,
    { cookie, origin: `http://${host}`, 'content-type': 'application/json', ...headers },
    'POST',
    body,
  )

/** The first message of a WebSocket, or the status with which it is refused. */
function connect(path: string, headers: Record<string, string>): Promise<string> {
  return new Promise((resolve) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, { headers })
    socket.on('message', (data) => {
      resolve(String(data))
      socket.close()
    })
    socket.on('unexpected-response', (_request, response) =>
      resolve(`refused ${response.statusCode}`),
    )
    socket.on('close', (code) => resolve(`closed ${code}`))
    socket.on('error', () => {})
  })
}

beforeAll(async () => {
  server = await serveGuide(guide, files, 0)
  port = Number(new URL(server.url).port)
  host = `127.0.0.1:${port}`
  const opened = await ask(new URL(server.url).pathname)
  cookie = String(opened.headers['set-cookie']).split(';')[0] ?? ''
})

afterAll(() => server.close())

test('the token is exchanged for a cookie of this browser, and leaves the address bar', async () => {
  const { status, headers } = await ask(new URL(server.url).pathname)
  expect(status).toBe(303)
  expect(headers.location).toBe('/')
  expect(String(headers['set-cookie'])).toMatch(
    /^guide-\d+=[0-9a-f]{32}; Path=\/; HttpOnly; SameSite=Strict$/,
  )
  expect(String(headers['set-cookie'])).not.toContain(
    new URL(server.url).pathname.split('/').at(-1),
  )
  expect(headers['referrer-policy']).toBe('no-referrer')
})

test('with the cookie there is the page, with a policy that lets only its own scripts run', async () => {
  const { status, headers, body } = await ask('/', { cookie })
  expect([status, body]).toEqual([200, HTML.toString()])
  expect(headers).toMatchObject({
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'same-origin',
  })
  const policy = String(headers['content-security-policy'])
  expect(policy).toContain("default-src 'none'; script-src 'self';")
  expect(policy).toContain(`connect-src 'self' ws://${host};`)
  expect(policy).toContain("frame-ancestors 'none'")
  expect((await ask('/main.js', { cookie, host: `localhost:${port}` })).status).toBe(200)
})

describe('nothing is told', () => {
  test.each([
    ['without a cookie', '/', () => ({})],
    ['with a wrong one', '/main.js', () => ({ cookie: `guide-${port}=${'0'.repeat(32)}` })],
    ['with a part of it', '/', () => ({ cookie: cookie.slice(0, -1) })],
    [
      'with the cookie of another name',
      '/',
      () => ({ cookie: cookie.replace(/^guide-\d+/, 'guide-1') }),
    ],
    [
      'to another name of this machine (DNS rebinding)',
      '/',
      () => ({ cookie, host: `evil.example:${port}` }),
    ],
    ['to a name without the port', '/', () => ({ cookie, host: '127.0.0.1' })],
    ['to a page of another site', '/main.js', () => ({ cookie, origin: 'https://evil.example' })],
    [
      'to another port of this machine',
      '/main.js',
      () => ({ cookie, origin: 'http://127.0.0.1:1' }),
    ],
    ['to a file without an origin', '/main.js', () => ({ cookie, origin: 'null' })],
    [
      'to a script tag of another page',
      '/main.js',
      () => ({ cookie, 'sec-fetch-site': 'same-site' }),
    ],
    ['by a wrong token', '/open/00000000000000000000000000000000', () => ({})],
    ['by no token', '/open/', () => ({})],
  ])('%s', async (_what, path, headers) => {
    const { status, body, headers: answered } = await ask(path, headers())
    expect([403, 404]).toContain(status)
    expect(body).not.toContain('page</title>')
    expect(answered['set-cookie']).toBeUndefined()
  })

  test('by the token under another name of this machine', async () => {
    const { status, headers } = await ask(new URL(server.url).pathname, {
      host: `evil.example:${port}`,
    })
    expect([status, headers['set-cookie']]).toEqual([404, undefined])
  })

  test.each([
    '/../package.json',
    '/%2e%2e/package.json',
    '/..%2fpackage.json',
    '//etc/passwd',
    '/index.html',
    '/main.js/../../x',
    '/api/lab/',
    '/api/constructor',
    '/?x',
  ])('about %s', async (path) => {
    expect((await ask(path, { cookie })).status).toBe(404)
  })
})

describe('an action', () => {
  test('is done for the page', async () => {
    const { status, body } = await post('check', '{"step":"web"}')
    expect([status, JSON.parse(body)]).toEqual([200, { ok: true, verdict: 'passed' }])
    expect(acted).toEqual([['check', { step: 'web' }]])
  })

  test.each([
    ['of another site', () => ({ origin: 'https://evil.example' })],
    ['of another port', () => ({ origin: 'http://127.0.0.1:1' })],
    ['without a cookie', () => ({ cookie: '' })],
    ['of a form', () => ({ 'content-type': 'text/plain' })],
    [
      'by another name of this machine',
      () => ({ host: `evil.example:${port}`, origin: `http://evil.example:${port}` }),
    ],
  ])('%s is not', async (_what, headers) => {
    const before = acted.length
    const { status } = await post('check', '{"step":"web"}', headers())
    expect([403, 404, 415]).toContain(status)
    expect(acted).toHaveLength(before)
  })

  test('without an origin is not', async () => {
    const headers = { cookie, 'content-type': 'application/json' }
    expect((await ask('/api/check', headers, 'POST', '{"step":"web"}')).status).toBe(403)
  })

  test.each([
    ['no JSON', 'check', '{', 400],
    ['a word too many', 'check', '{"step":"web","x":1}', 400],
    ['another type', 'check', '{"step":7}', 400],
    ['a text too long', 'check', JSON.stringify({ step: 'x'.repeat(61) }), 400],
    ['a number out of range', 'lab', '{"number":-1}', 400],
    ['a body too large', 'answer', JSON.stringify({ step: 'a', text: 'x'.repeat(20_000) }), 413],
    ['an unknown name', 'destroy', '{}', 404],
    ['a name of all objects', 'constructor', '{}', 404],
  ])('with %s is refused with a sentence', async (_what, name, body, status) => {
    const before = acted.length
    const answer = await post(name, body)
    expect(answer.status).toBe(status)
    if (status !== 404) expect(JSON.parse(answer.body).error).toMatch(/\S/)
    expect(answer.body).not.toContain('node_modules')
    expect(acted).toHaveLength(before)
  })

  test('that cannot be done tells why', async () => {
    const { status, body } = await post('reset', '{}')
    expect([status, JSON.parse(body)]).toEqual([409, { error: 'Not now.' }])
  })
})

describe('a WebSocket', () => {
  const origin = () => ({ cookie, origin: `http://${host}` })

  test('is opened for the page', async () => {
    expect(await connect('/events', origin())).toBe('joined')
    expect(await connect('/terminal/t1', origin())).toBe('attached')
    expect(await connect('/terminal/t2', origin())).toBe('closed 4004')
  })

  test.each([
    ['of another site', '/events', () => ({ ...origin(), origin: 'https://evil.example' })],
    ['without an origin', '/events', () => ({ cookie })],
    ['without a cookie', '/terminal/t1', () => ({ origin: `http://${host}` })],
    [
      'by another name',
      '/events',
      () => ({ cookie, host: 'evil.example', origin: 'http://evil.example' }),
    ],
    ['to anything else', '/other', origin],
    ['to a terminal with a path', '/terminal/t1/x', origin],
  ])('%s is refused', async (_what, path, headers) => {
    expect(await connect(path, headers())).toMatch(/^refused 40[34]$/)
  })

  test.each(['/events', '/terminal/t1'])(
    'that sends a giant message on %s is closed, and nothing else is',
    async (path) => {
      const other = new WebSocket(`ws://${host}/events`, { headers: origin() })
      await once(other, 'open')
      const socket = new WebSocket(`ws://${host}${path}`, { headers: origin() })
      await once(socket, 'open')
      socket.send(Buffer.alloc(300_000))
      expect((await once(socket, 'close'))[0]).toBe(1009)
      expect(other.readyState).toBe(WebSocket.OPEN)
      other.close()
    },
  )

  test('many refused ones that are reset do not end the server', async () => {
    const upgrade = `GET /events HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`
    await Promise.all(
      Array.from({ length: 50 }, async () => {
        const socket = connectTo(port, '127.0.0.1')
        await once(socket, 'connect')
        socket.write(upgrade.repeat(3))
        socket.resetAndDestroy()
      }),
    )
    expect((await ask('/', { cookie })).status).toBe(200)
  })
})

test('it listens on 127.0.0.1 only, and every start has another token', async () => {
  const other = await serveGuide(guide, files, 0)
  const { hostname, pathname, port: taken } = new URL(other.url)
  expect(hostname).toBe('127.0.0.1')
  expect(pathname).not.toBe(new URL(server.url).pathname)
  const opened = await fetch(other.url, { redirect: 'manual' })
  const earlier = String(opened.headers.get('set-cookie')).split(';')[0] ?? ''
  await expect(fetch(`http://[::1]:${taken}/`)).rejects.toThrow()
  await expect(fetch(`http://127.0.0.2:${taken}/`)).rejects.toThrow()
  await expect(serveGuide(guide, files, Number(taken))).rejects.toThrow(/Port \d+ can't be used/)
  await other.close()
  await expect(fetch(other.url)).rejects.toThrow()
  // Neither the token nor the cookie of an earlier start opens anything at the same port.
  const next = await serveGuide(guide, files, Number(taken))
  expect((await fetch(other.url, { redirect: 'manual' })).status).toBe(403)
  expect((await fetch(`http://127.0.0.1:${taken}/`, { headers: { cookie: earlier } })).status).toBe(
    403,
  )
  await next.close()
})

describe('the files of the page', async () => {
  const MOST_BYTES = 400_000
  const made = await buildPage(GUIDE_PAGE)

  test('the whole page is small, compressed', () => {
    const bodies = [...made.values()].map(({ body }) => gzipSync(body).length)
    expect(bodies.length).toBeGreaterThanOrEqual(3)
    expect(bodies.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(MOST_BYTES)
  })

  test('the page loads nothing from elsewhere', () => {
    for (const [path, { body }] of made) {
      const text = Buffer.from(body).toString()
      const loaded = [
        ...text.matchAll(/(?:src|href|@import|url\()[=\s"'(]*((?:https?:)?\/\/[^"')\s]+)/g),
      ].map(([, url]) => url)
      expect(loaded, path).toEqual([])
    }
  })
})
