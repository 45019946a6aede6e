import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, createServer as listen } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HTTP_GET } from '../../cluster/node-script.ts'
import { ensurePackages } from '../../embedded/index.ts'
import { cacheFolder } from '../../host/layout.ts'
import { silent } from '../../host/progress.ts'

/** Where a node of the embedded cluster has its program. */
const [, place = ''] = /-x (\S+) \]/.exec(HTTP_GET) ?? []

/** Longer than what arrives at once. */
const body = 'a page\n'.repeat(40_000)

let server: Server
let port = 0
let status = 200
beforeAll(async () => {
  server = createServer((_request, response) => response.writeHead(status).end(body))
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

/** Runs the text as a node does; of the embedded cluster with its own program at this path. */
const asked = (
  to: number,
  { env = process.env, seconds = 3, own = '/no/program', print = false } = {},
) =>
  new Promise<{ code: number; output: string }>((resolve) =>
    execFile(
      '/bin/sh',
      [
        '-c',
        `${HTTP_GET.replaceAll(place, own)}\nhttp_get 127.0.0.1 ${to} / ${seconds} ${print ? '' : '>/dev/null'}`,
      ],
      { env },
      (error, stdout, stderr) =>
        resolve({ code: Number(error?.code ?? 0), output: stdout + stderr }),
    ),
  )

/** The program of the embedded cluster is compiled once. */
const compiled = (async () => join(await ensurePackages(cacheFolder, silent), place))()
const programs = { perl: undefined, 'the program of the embedded cluster': compiled }

describe.each(Object.entries(programs))('%s', (_name, program) => {
  const from = async (to: number, options: Parameters<typeof asked>[1] = {}) => {
    const own = await program
    return asked(to, { ...options, ...(own && { own }) })
  }

  test('an answer ends well, a status of 400 or more does not', async () => {
    for (const good of [200, 301]) {
      status = good
      expect(await from(port, { print: true }), `${good}`).toEqual({ code: 0, output: body })
    }
    status = 204
    expect(await from(port, { print: true })).toEqual({ code: 0, output: '' })
    for (const bad of [404, 503]) {
      status = bad
      const { code, output } = await from(port)
      expect(code, `${bad}`).toBe(22)
      expect(output).toContain(`${bad}`)
    }
  })

  test('no listener, a listener without an answer, and another protocol', async () => {
    const silent = listen(() => {})
    const other = listen((socket) => socket.on('error', () => {}).end('220 mail.example ESMTP\r\n'))
    const [quiet, strange] = [await portOf(silent), await portOf(other)]
    silent.close()
    const refused = await from(quiet)
    expect(refused.code).toBe(7)
    expect(refused.output).not.toBe('')
    expect((await from(strange)).code).not.toBe(0)
    other.close()
    const open = listen((socket) => socket.on('error', () => {}))
    const waiting = await from(await portOf(open), { seconds: 1 })
    open.close()
    expect(waiting.code).toBe(28)
    expect(waiting.output).toContain('none within 1 s')
  })
})

test('without perl, curl sends the request', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'curl-'))
  symlinkSync('/usr/bin/curl', join(folder, 'curl'))
  status = 200
  expect(await asked(port, { env: { PATH: folder } })).toEqual({ code: 0, output: '' })
  status = 404
  expect((await asked(port, { env: { PATH: folder } })).output).toContain('404')
  rmSync(folder, { recursive: true })
})
