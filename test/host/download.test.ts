import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { fetchVerified } from '../../host/download.ts'
import { waitFor } from '../../host/wait.ts'

const content = randomBytes(300_000)
const sum = createHash('sha256').update(content).digest('hex')
let folder: string
let server: Server
let answer: (request: IncomingMessage, response: ServerResponse) => void
let url: string

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'download-'))
  server = createServer((request, response) => answer(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/tool`
})

afterEach(() => {
  server.closeAllConnections()
  server.close()
  rmSync(folder, { recursive: true })
})

const path = () => join(folder, 'bin', 'tool')
/** Faster than toEqual, which compares byte by byte. */
const isWhole = () => content.equals(readFileSync(path()))
const whole = (_request: IncomingMessage, response: ServerResponse) => response.end(content)

test('a file with the right checksum is executable, and not fetched again', async () => {
  let requests = 0
  answer = (request, response) => {
    requests++
    whole(request, response)
  }
  await fetchVerified(url, sum, path())
  await fetchVerified(url, sum, path())
  expect(isWhole()).toBe(true)
  expect(requests).toBe(1)
})

test('a file with a wrong checksum is refused and removed', async () => {
  answer = (_request, response) => response.end('something else')
  await expect(fetchVerified(url, sum, path())).rejects.toThrow(/has the SHA-256 .* instead of/)
  expect(existsSync(path()) || existsSync(`${path()}.part`)).toBe(false)
})

test('an interrupted download is resumed where it stopped', async () => {
  answer = (_request, response) => {
    response.writeHead(200, { 'content-length': content.length })
    response.write(content.subarray(0, 100_000))
    const kept = () => statSync(`${path()}.part`, { throwIfNoEntry: false })?.size ?? 0
    void waitFor('a part to be kept', 20_000, async () => kept() > 0).then(() => response.destroy())
  }
  await expect(fetchVerified(url, sum, path())).rejects.toThrow(/was cut off/)
  let from = 0
  answer = (request, response) => {
    from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1])
    response.writeHead(206).end(content.subarray(from))
  }
  await fetchVerified(url, sum, path())
  expect(from).toBeGreaterThan(0)
  expect(isWhole()).toBe(true)
})

test('a server that ignores the range sends the whole file', async () => {
  answer = whole
  await fetchVerified(url, sum, path())
  rmSync(path())
  writeFileSync(`${path()}.part`, 'rubbish')
  await fetchVerified(url, sum, path())
  expect(isWhole()).toBe(true)
})

test('an error page and an unreachable server are one sentence each', async () => {
  answer = (_request, response) => response.writeHead(404).end()
  await expect(fetchVerified(url, sum, path())).rejects.toThrow(/answered 404/)
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await expect(fetchVerified(url, sum, path())).rejects.toThrow(/could not be reached/)
})
