import { execFile } from 'node:child_process'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, createServer as listen } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { httpRequest } from '../../grading/http-requests.ts'

let server: Server
let port = 0
let status = 200
beforeAll(async () => {
  server = createServer((_request, response) => response.writeHead(status).end('a page\n'))
  port = await portOf(server)
})
afterAll(() => void server.close())

const portOf = (any: { listen(port: number, host: string, done: () => void): unknown; address(): unknown }) =>
  new Promise<number>((resolve) =>
    any.listen(0, '127.0.0.1', () => resolve((any.address() as AddressInfo | null)?.port ?? 0)),
  )

/** Runs the text as a node does. */
const asked = (to: number) =>
  new Promise<{ code: number; said: string }>((resolve) =>
    execFile('/bin/sh', ['-c', httpRequest('127.0.0.1', to)], (error, stdout, stderr) =>
      resolve({ code: Number(error?.code ?? 0), said: stdout + stderr }),
    ),
  )

test('an answer ends well and prints nothing, a status of 400 or more does not', async () => {
  for (const good of [200, 204, 301]) {
    status = good
    expect(await asked(port), `${good}`).toEqual({ code: 0, said: '' })
  }
  for (const bad of [404, 503]) {
    status = bad
    const { code, said } = await asked(port)
    expect(code, `${bad}`).not.toBe(0)
    expect(said).toContain(`${bad}`)
  }
})

test('nobody there, somebody who says nothing, and somebody who speaks something else', async () => {
  const silent = listen(() => {})
  const other = listen((socket) => socket.end('220 mail.example ESMTP\r\n'))
  const [quiet, strange] = [await portOf(silent), await portOf(other)]
  silent.close()
  const refused = await asked(quiet)
  expect(refused.code).not.toBe(0)
  expect(refused.said).not.toBe('')
  expect((await asked(strange)).code).not.toBe(0)
  other.close()
  const open = listen(() => {})
  const waiting = await asked(await portOf(open))
  open.close()
  expect(waiting.code).not.toBe(0)
  expect(waiting.said).toContain('timed out')
})
