import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, createServer as listen } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HTTP_GET } from '../../cluster/node-script.ts'

let server: Server
let port = 0
let status = 200
beforeAll(async () => {
  server = createServer((_request, response) => response.writeHead(status).end('a page\n'))
  port = await portOf(server)
})
afterAll(() => void server.close())

const portOf = (any: {
  listen(port: number, host: string, done: () => void): unknown
  address(): unknown
}) =>
  new Promise<number>((resolve) =>
    any.listen(0, '127.0.0.1', () => resolve((any.address() as AddressInfo | null)?.port ?? 0)),
  )

/** Runs the text as a node does. */
const asked = (to: number, env = process.env, seconds = 3) =>
  new Promise<{ code: number; output: string }>((resolve) =>
    execFile(
      '/bin/sh',
      ['-c', `${HTTP_GET}\nhttp_get 127.0.0.1 ${to} / ${seconds} >/dev/null`],
      { env },
      (error, stdout, stderr) =>
        resolve({ code: Number(error?.code ?? 0), output: stdout + stderr }),
    ),
  )

test('an answer ends well and prints nothing, a status of 400 or more does not', async () => {
  for (const good of [200, 204, 301]) {
    status = good
    expect(await asked(port), `${good}`).toEqual({ code: 0, output: '' })
  }
  for (const bad of [404, 503]) {
    status = bad
    const { code, output } = await asked(port)
    expect(code, `${bad}`).not.toBe(0)
    expect(output).toContain(`${bad}`)
  }
})

test('no listener, a listener without an answer, and another protocol', async () => {
  const silent = listen(() => {})
  const other = listen((socket) => socket.on('error', () => {}).end('220 mail.example ESMTP\r\n'))
  const [quiet, strange] = [await portOf(silent), await portOf(other)]
  silent.close()
  const refused = await asked(quiet)
  expect(refused.code).not.toBe(0)
  expect(refused.output).not.toBe('')
  expect((await asked(strange)).code).not.toBe(0)
  other.close()
  const open = listen((socket) => socket.on('error', () => {}))
  const waiting = await asked(await portOf(open), process.env, 1)
  open.close()
  expect(waiting.code).not.toBe(0)
  expect(waiting.output).toContain('none within 1 s')
})

test('without perl, curl sends the request', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'curl-'))
  symlinkSync('/usr/bin/curl', join(folder, 'curl'))
  status = 200
  expect(await asked(port, { PATH: folder })).toEqual({ code: 0, output: '' })
  status = 404
  expect((await asked(port, { PATH: folder })).output).toContain('404')
  rmSync(folder, { recursive: true })
})
