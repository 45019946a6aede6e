import { createReadStream, lstatSync } from 'node:fs'
import { createGunzip } from 'node:zlib'
import type { ArchiveLimits } from './limits.ts'
import { Refusal, refuse } from './refusal.ts'

/** So many unpacked bytes are let out before the ratio is asked: the first bytes of a stream say little. */
const RATIO_FROM = 2 ** 20

/**
 * The unpacked bytes of a gzip file, as they come; nothing is read ahead of the limits. Both streams end with the loop.
 * @throws Refusal when it is no regular file, no gzip, cut off, or more than the limits allow
 */
export async function* gunzipFile(file: string, limits: ArchiveLimits): AsyncGenerator<Buffer> {
  requirePlainFile(file, limits)
  const packed = createReadStream(file)
  const gunzip = createGunzip({ chunkSize: 64 * 1024 })
  packed.on('error', (error) => gunzip.destroy(error))
  packed.pipe(gunzip)
  let out = 0
  try {
    for await (const chunk of gunzip) {
      out += chunk.length
      if (out > limits.unpackedBytes) refuse(`It unpacks to more than ${limits.unpackedBytes} bytes.`)
      if (out > RATIO_FROM && out / packed.bytesRead > limits.ratio)
        refuse(`It unpacks to more than ${limits.ratio} times its size: no capture is that uniform.`)
      yield chunk
    }
  } catch (error) {
    throw asRefusal(error)
  } finally {
    packed.destroy()
    gunzip.destroy()
  }
}

function requirePlainFile(file: string, limits: ArchiveLimits): void {
  const stats = lstatSync(file, { throwIfNoEntry: false }) ?? refuse('There is no such file.')
  if (!stats.isFile()) refuse('It is no plain file.')
  if (stats.size === 0) refuse('It is empty.')
  if (stats.size > limits.packedBytes) refuse(`It has ${stats.size} bytes; ${limits.packedBytes} is the most.`)
}

function asRefusal(error: unknown): unknown {
  if (error instanceof Refusal) return error
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'Z_BUF_ERROR') return new Refusal('It is cut off: its gzip stream has no end.')
  if (typeof code === 'string' && code.startsWith('Z_')) return new Refusal('It is damaged, or no gzip file at all.')
  if (code === 'EACCES' || code === 'EPERM') return new Refusal('It may not be read: the permissions forbid it.')
  return error
}
