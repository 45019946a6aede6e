import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type SlideServer, serveSlides } from '../../slides/build/serve.ts'

const folder = mkdtempSync(join(tmpdir(), 'slides-'))
let server: SlideServer

beforeAll(async () => {
  writeFileSync(join(folder, 'index.html'), 'the index')
  writeFileSync(join(folder, '02-ipvs.html'), 'a deck')
  writeFileSync(join(folder, 'secret.txt'), 'no page')
  server = await serveSlides(folder)
})

afterAll(async () => {
  await server.close()
  rmSync(folder, { recursive: true })
})

function get(
  path: string,
  headers: Record<string, string> = {},
  method = 'GET',
): Promise<{ status: number; body: string }> {
  const { port } = new URL(server.url)
  return new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path, headers, method }, (response) => {
      let body = ''
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body }))
    })
    asked.on('error', reject).end()
  })
}

test('pages are served with the token', async () => {
  const { pathname } = new URL(server.url)
  expect(await get(pathname)).toEqual({ status: 200, body: 'the index' })
  expect(await get(`${pathname}02-ipvs.html?x=1`)).toEqual({ status: 200, body: 'a deck' })
})

test('a wrong token, another file, host or method returns 404', async () => {
  const { pathname } = new URL(server.url)
  const refused = [
    await get('/'),
    await get('/index.html'),
    await get(`/${'0'.repeat(32)}/index.html`),
    await get(`${pathname}secret.txt`),
    await get(`${pathname}../index.html`),
    await get(`${pathname}%2e%2e%2findex.html`),
    await get(pathname, { host: 'slides.example.com' }),
    await get(pathname, {}, 'POST'),
  ]
  expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 404))
})

test('it listens on 127.0.0.1 only, with a new token at every start', async () => {
  const other = await serveSlides(folder)
  await other.close()
  expect(new URL(server.url).hostname).toBe('127.0.0.1')
  expect(new URL(other.url).pathname).not.toBe(new URL(server.url).pathname)
  await expect(fetch(other.url)).rejects.toThrow()
})
