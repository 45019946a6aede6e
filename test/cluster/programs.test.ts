import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { cachedKind, kindPath, kindRelease, kindVersion } from '../../cluster/programs.ts'
import { FakeEngine } from './fake-engine.ts'

const content = Buffer.from('#!/bin/sh\necho a kind\n')
const sum = createHash('sha256').update(content).digest('hex')
const notes: string[] = []
const progress = { start() {}, end() {}, note: (line: string) => notes.push(line) }
let cache: string
let server: Server
let asked: string[]
let engine: FakeEngine

beforeEach(async () => {
  cache = mkdtempSync(join(tmpdir(), 'kind-cache-'))
  engine = new FakeEngine()
  notes.length = 0
  asked = []
  server = createServer((request, response) => {
    asked.push(request.url ?? '')
    response.end(content)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  vi.stubEnv('KIND_MIRROR', `http://127.0.0.1:${(server.address() as AddressInfo).port}/mirror`)
})
afterEach(() => {
  vi.unstubAllEnvs()
  server.closeAllConnections()
  server.close()
  engine.stop()
  rmSync(cache, { recursive: true })
})

/** A PATH with a kind of that release, or with none. */
const withKind = (release?: string) => {
  if (release) engine.write('release', release)
  vi.stubEnv('PATH', release ? engine.path : '/usr/bin:/bin')
}

test('a kind of the pinned release on PATH is used, and nothing is fetched', async () => {
  withKind(kindRelease)
  expect(await kindPath(progress, { cache, sum })).toBe(join(engine.folder, 'bin', 'kind'))
  expect(asked).toEqual([])
})

test('instead of another release on PATH the pinned one is fetched once, from the mirror', async () => {
  withKind('v0.20.0')
  expect(await kindPath(progress, { cache, sum })).toBe(cachedKind(cache))
  expect(await kindPath(progress, { cache, sum })).toBe(cachedKind(cache))
  expect(asked).toHaveLength(1)
  expect(asked[0]).toMatch(new RegExp(`^/mirror/${kindRelease}/kind-\\w+-\\w+$`))
})

test('without a network another release on PATH is used, with a note', async () => {
  server.close()
  withKind('v0.20.0')
  expect(await kindPath(progress, { cache, sum })).toBe(join(engine.folder, 'bin', 'kind'))
  expect(notes.join()).toMatch(/could not be reached.*Continuing with kind v0\.20\.0 from PATH/)
})

test('without a network and without kind, one sentence names the alternatives', async () => {
  server.close()
  withKind()
  await expect(kindPath(progress, { cache, sum })).rejects.toThrow(
    /could not be reached.*Put kind v\S+ on PATH, name a mirror with KIND_MIRROR=, or use CLUSTER=embedded\.$/,
  )
})

test('a file with another checksum is removed', async () => {
  withKind()
  await expect(kindPath(progress, { cache, sum: sum.replace(/^./, 'x') })).rejects.toThrow(
    /has the SHA-256/,
  )
  expect(existsSync(cachedKind(cache))).toBe(false)
})

test('the release is read from the output of kind version', () => {
  expect(kindVersion('kind v0.33.0 go1.27.2 linux/amd64')).toBe('v0.33.0')
  expect(kindVersion('kind v0.34.0-alpha+1f2e3d go1.27.2 linux/amd64')).toBe('v0.34.0-alpha+1f2e3d')
  expect(kindVersion('command not found')).toBeUndefined()
})
