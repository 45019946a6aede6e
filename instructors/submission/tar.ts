import { gzipSync } from 'node:zlib'
import { type ArchiveLimits, quoted, refuse } from './untrusted-text.ts'

const KINDS: Record<string, string> = {
  '1': 'a hard link',
  '2': 'a symbolic link',
  '3': 'a character device',
  '4': 'a block device',
  '6': 'a named pipe',
}

/** Refuses every kind of entry but files, folders and extended headers. */
function requireHarmlessType(type: string, path: string): void {
  if (type === '0' || type === '5' || type === 'x' || type === 'g') return
  refuse(
    `It contains ${KINDS[type] ?? `an entry of unknown type ${quoted(type)}`}, ${quoted(path)}: only regular files are allowed.`,
  )
}

/**
 * The path of an entry without leading `./` and trailing `/`. Refuses a path that leads out of the archive or has a special
 * meaning for a file system or a terminal. No file is ever written under such a name.
 */
function plainPath(path: string, limits: ArchiveLimits): string {
  if (path.length > 255) refuse(`It contains a path of ${path.length} characters; 255 is the most.`)
  if (/[\0-\x1f\x7f-\x9f\\]/.test(path))
    refuse(`It contains a path with control characters or a backslash, ${quoted(path)}.`)
  if (path.startsWith('/')) refuse(`It contains an absolute path, ${quoted(path)}.`)
  const parts = path
    .replace(/^(?:\.\/)+/, '')
    .replace(/\/+$/, '')
    .split('/')
  if (parts.includes('..')) refuse(`It contains a path that leads out of it, ${quoted(path)}.`)
  if (parts.length - 1 > limits.depth)
    refuse(`It contains folders ${parts.length - 1} deep; ${limits.depth} is the most.`)
  return parts.join('/')
}

// The 512-byte headers of POSIX.1-1988 "ustar" archives, and the extended headers of POSIX.1-2001 (pax).
//
// The library tar-stream 3.2 is not strict enough: it accepts an archive without its end, entries after the end, and a size
// such as "1z", which parseInt reads as 1. A truncated or altered submission must be refused.

export const BLOCK = 512

interface TarHeader {
  path: string
  size: number
  /** `0` file, `5` directory, `x` and `g` extended headers, the others are links, devices and the like. */
  type: string
}

const CHECKSUM_AT = 148
const CHECKSUM_LENGTH = 8

/** Reads one header block; undefined for the block of zeros that ends an archive. Refuses an invalid header. */
function readTarHeader(block: Buffer): TarHeader | undefined {
  if (block.every((byte) => byte === 0)) return undefined
  if (readOctal(block, CHECKSUM_AT, CHECKSUM_LENGTH) !== checksumOf(block))
    refuse('It is damaged: a header of its tar archive has a wrong checksum.')
  const name = readText(block, 0, 100)
  const magic = block.toString('latin1', 257, 262)
  const prefix = magic === 'ustar' ? readText(block, 345, 155) : ''
  const type = String.fromCharCode(block[156] ?? 0)
  return {
    path: prefix ? `${prefix}/${name}` : name,
    size: readOctal(block, 124, 12),
    type: type === '\0' ? '0' : type,
  }
}

/** A header for a regular file. Throws when the path does not fit ustar's two fields. */
export function tarHeader(path: string, size: number, modified: Date): Buffer {
  const cut = path.length <= 100 ? -1 : path.lastIndexOf('/', 155)
  const name = path.slice(cut + 1)
  const prefix = cut === -1 ? '' : path.slice(0, cut)
  if (name.length > 100 || prefix.length > 155)
    throw new Error(`The path ${quoted(path)} is too long for a tar archive.`)
  const block = Buffer.alloc(BLOCK)
  block.write(name, 0, 'utf8')
  block.write('0000644\0', 100)
  block.write('0000000\0', 108)
  block.write('0000000\0', 116)
  block.write(`${size.toString(8).padStart(11, '0')}\0`, 124)
  block.write(
    `${Math.floor(modified.getTime() / 1000)
      .toString(8)
      .padStart(11, '0')}\0`,
    136,
  )
  block.write('0', 156)
  block.write('ustar\x0000', 257)
  block.write(prefix, 345, 'utf8')
  block.write(`${checksumOf(block).toString(8).padStart(6, '0')}\0 `, CHECKSUM_AT)
  return block
}

/** The records `LENGTH KEY=VALUE\n` of an extended header that describe the next entry. */
function readPaxRecords(content: Buffer): { path?: string; size?: number } {
  const found: { path?: string; size?: number } = {}
  for (let at = 0; at < content.length; ) {
    const space = content.indexOf(0x20, at)
    const length = space === -1 || space - at > 8 ? Number.NaN : Number(content.toString('latin1', at, space))
    const end = at + length
    if (!Number.isInteger(length) || end > content.length || end <= space + 1 || content[end - 1] !== 0x0a)
      refuse("It is damaged: an extended header of its tar archive can't be read.")
    const record = content.toString('utf8', space + 1, end - 1)
    const equals = record.indexOf('=')
    const key = record.slice(0, equals)
    const value = record.slice(equals + 1)
    if (key === 'path') found.path = value
    if (key === 'size')
      found.size = /^\d{1,15}$/.test(value) ? Number(value) : refuse('It is damaged: a size in it is not a number.')
    at = end
  }
  return found
}

function readText(block: Buffer, at: number, length: number): string {
  const field = block.subarray(at, at + length)
  const end = field.indexOf(0)
  return field.toString('utf8', 0, end === -1 ? length : end)
}

/** GNU tar's binary numbers (first bit set) are for sizes beyond the limits of a submission. */
function readOctal(block: Buffer, at: number, length: number): number {
  const text = block
    .toString('latin1', at, at + length)
    .replace(/[\0 ]+$/, '')
    .trimStart()
  if (!/^[0-7]*$/.test(text)) refuse("It is damaged: a number in a header of its tar archive can't be read.")
  return text === '' ? 0 : Number.parseInt(text, 8)
}

function checksumOf(block: Buffer): number {
  let sum = 0
  for (let index = 0; index < BLOCK; index++) {
    const inChecksum = index >= CHECKSUM_AT && index < CHECKSUM_AT + CHECKSUM_LENGTH
    sum += inChecksum ? 0x20 : (block[index] ?? 0)
  }
  return sum
}

export interface TarEntry {
  path: string
  content: Buffer
}

const PAX_BYTES = 64 * 1024

/**
 * Yields the files of a tar archive; folders are skipped. Contents are views of the archive's bytes.
 * @throws Refusal for anything but regular files with plain paths, if a limit is exceeded, and for a damaged archive
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
      // Two blocks of zeros end an archive; without them it is truncated.
      if (!block) refuse('It is truncated: its tar archive has no end.')
      return
    }
    if (entries > limits.entries) refuse(`It contains more than ${limits.entries} entries.`)
    const size = extended.size ?? header.size
    requireHarmlessType(header.type, header.path)
    const meta = header.type === 'x' || header.type === 'g'
    const most = meta ? PAX_BYTES : limits.fileBytes
    if (size > most) refuse(`It contains a file of ${size} bytes, ${quoted(header.path)}; ${most} is the most.`)
    const content = take(size) ?? refuse('It is truncated in the middle of a file.')
    if (take((BLOCK - (size % BLOCK)) % BLOCK) === undefined) refuse('It is truncated after a file.')
    if (meta) {
      extended = header.type === 'x' ? readPaxRecords(content) : extended
      continue
    }
    const path = plainPath(extended.path ?? header.path, limits)
    extended = {}
    if (header.type === '5') continue
    if (seen.has(path)) refuse(`It contains ${quoted(path)} twice.`)
    seen.add(path)
    yield { path, content }
  }
}

/** A gzipped ustar archive of these files, in this order. */
export function writeTarGz(entries: readonly TarEntry[], modified: Date): Buffer {
  const blocks = entries.flatMap(({ path, content }) => [
    tarHeader(path, content.length, modified),
    content,
    Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK),
  ])
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]), { level: 9 })
}
