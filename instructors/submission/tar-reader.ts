import type { ArchiveLimits } from './limits.ts'
import { quoted, refuse } from './refusal.ts'
import { BLOCK, readPaxRecords, readTarHeader } from './tar-header.ts'
import { plainPath, requireHarmlessType } from './tar-path.ts'

export interface TarEntry {
  path: string
  content: Buffer
}

const PAX_BYTES = 64 * 1024

/**
 * The files of a tar archive, one after the other; folders are passed over. Contents are parts of the archive's own bytes.
 * @throws Refusal for anything but plain files in plain paths, for what exceeds the limits, and for a damaged archive
 */
export function* readTar(archive: Buffer, limits: ArchiveLimits): Generator<TarEntry> {
  const seen = new Set<string>()
  let extended: ReturnType<typeof readPaxRecords> = {}
  let at = 0
  const take = (count: number): Buffer | undefined => {
    if (at + count > archive.length) return undefined
    at += count
    return archive.subarray(at - count, at)
  }
  for (let entries = 1; ; entries++) {
    const block = take(BLOCK)
    const header = block && readTarHeader(block)
    if (!header) {
      // Two blocks of zeros end an archive; one that just stops was cut off.
      if (!block) refuse('It is cut off: its tar archive has no end.')
      return
    }
    if (entries > limits.entries) refuse(`It holds more than ${limits.entries} entries.`)
    const size = extended.size ?? header.size
    requireHarmlessType(header.type, header.path)
    const meta = header.type === 'x' || header.type === 'g'
    const most = meta ? PAX_BYTES : limits.fileBytes
    if (size > most) refuse(`It holds a file of ${size} bytes, ${quoted(header.path)}; ${most} is the most.`)
    const content = take(size) ?? refuse('It is cut off in the middle of a file.')
    if (take((BLOCK - (size % BLOCK)) % BLOCK) === undefined) refuse('It is cut off behind a file.')
    if (meta) {
      extended = header.type === 'x' ? readPaxRecords(content) : extended
      continue
    }
    const path = plainPath(extended.path ?? header.path, limits)
    extended = {}
    if (header.type === '5') continue
    if (seen.has(path)) refuse(`It holds ${quoted(path)} twice.`)
    seen.add(path)
    yield { path, content }
  }
}
