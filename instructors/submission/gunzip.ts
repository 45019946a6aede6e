import { lstatSync, readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import type { ArchiveLimits } from './limits.ts'
import { Refusal, refuse } from './refusal.ts'

/** The ratio is checked only after this many unpacked bytes: the first bytes of a stream are not representative. */
const RATIO_FROM = 2 ** 20
const CHUNK = 2 ** 21

/**
 * The unpacked bytes of a gzip file. Unpacking stops at the limits, regardless of the size that the file claims.
 * @throws Refusal when it is no regular file, no gzip, cut off, or more than the limits allow
 */
export function gunzipFile(file: string, limits: ArchiveLimits): Buffer {
  requirePlainFile(file, limits)
  let byRatio = RATIO_FROM
  try {
    const packed = readFileSync(file)
    byRatio = Math.max(RATIO_FROM, packed.length * limits.ratio)
    // Most submissions unpack into one chunk, which costs no copy.
    return gunzipSync(packed, { maxOutputLength: Math.min(byRatio, limits.unpackedBytes), chunkSize: CHUNK })
  } catch (error) {
    if (codeOf(error) === 'ERR_BUFFER_TOO_LARGE')
      refuse(
        byRatio < limits.unpackedBytes
          ? `It unpacks to more than ${limits.ratio} times its size: no capture is that uniform.`
          : `It unpacks to more than ${limits.unpackedBytes} bytes.`,
      )
    throw asRefusal(error)
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
  const code = codeOf(error)
  if (code === 'Z_BUF_ERROR') return new Refusal('It is cut off: its gzip stream has no end.')
  if (code.startsWith('Z_')) return new Refusal('It is damaged, or no gzip file at all.')
  if (code === 'EACCES' || code === 'EPERM') return new Refusal('It may not be read: the permissions forbid it.')
  return error
}

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
