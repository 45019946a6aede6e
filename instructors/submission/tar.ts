import { lstatSync, readFileSync } from 'node:fs'
import { gunzipSync, gzipSync } from 'node:zlib'
import { quoted } from '../../host/plain-text.ts'
import { type ArchiveLimits, refuse, SUBMISSION_LIMITS } from './untrusted-text.ts'

const KINDS: Record<string, string> = {
  '1': 'a hard link',
  '2': 'a symbolic link',
  '3': 'a character device',
  '4': 'a block device',
  '6': 'a named pipe',
}

/** Refuses every kind of entry but files, folders and extended headers. */
function requireHarmlessType(type: string, path: string): void {
  if ('05xg'.includes(type)) return
  refuse(
    `It contains ${KINDS[type] ?? `an entry of unknown type ${quoted(type)}`}, ${quoted(path)}: only regular files are allowed.`,
  )
}

/** The paths of a submission's files and folders. No file is ever written under such a name. */
const PART = /^(?:\.|submission\.json|signature|captures(?:\/[A-Za-z0-9][\w.-]*)*)$/

/** The path of an entry without `./` and final slashes. Refuses one that no submission has. */
function partPath(written: string): string {
  const path = written.replace(/^(?:\.\/)+(?=.)|\/+$/g, '')
  if (!PART.test(path)) refuse(`It contains ${quoted(written)}, which is not part of a submission.`)
  return path
}

// The 512-byte headers of POSIX.1-1988 "ustar" archives. The extended headers of POSIX.1-2001 (pax)
// are skipped: contents are found by their digests, and no size in a submission is too large for
// the field in the ustar header. The library tar-stream 3.2 is not strict enough: it accepts an
// archive without its end, entries after the end, and a size such as "1z", which parseInt reads as
// 1. A truncated or altered submission must be refused.

export const BLOCK = 512

interface TarHeader {
  path: string
  size: number
  /**
   * `0` file, `5` directory, `x` and `g` extended headers, the others are links, devices and the
   * like.
   */
  type: string
}

function requireSmallFile({ path, size }: TarHeader, { fileBytes }: ArchiveLimits): void {
  if (size > fileBytes)
    refuse(`It contains a file of ${size} bytes, ${quoted(path)}; ${fileBytes} is the most.`)
}

const CHECKSUM_AT = 148
const CHECKSUM_LENGTH = 8

/**
 * Reads one header block; undefined for the block of zeros that ends an archive. Refuses an invalid
 * header.
 */
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
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, '0')}\0`
  const ids = [octal(0o644, 7), octal(0, 7), octal(0, 7)]
  block.write(name)
  block.write(
    `${ids.join('')}${octal(size, 11)}${octal(Math.floor(modified.getTime() / 1000), 11)}`,
    100,
  )
  block.write('0', 156)
  block.write('ustar\x0000', 257)
  block.write(prefix, 345)
  block.write(`${octal(checksumOf(block), 6)} `, CHECKSUM_AT)
  return block
}

function readText(block: Buffer, at: number, length: number): string {
  return block.toString('utf8', at, at + length).split('\0', 1)[0] ?? ''
}

/** GNU tar's binary numbers (first bit set) are for sizes beyond the limits of a submission. */
function readOctal(block: Buffer, at: number, length: number): number {
  const [, digits] = /^\s*([0-7]*)[\0 ]*$/.exec(block.toString('latin1', at, at + length)) ?? []
  if (digits === undefined)
    refuse("It is damaged: a number in a header of its tar archive can't be read.")
  return digits === '' ? 0 : Number.parseInt(digits, 8)
}

/** The sum of the bytes; those of the checksum itself count as blanks. */
const checksumOf = (block: Buffer): number =>
  block.reduce(
    (sum, byte, at) =>
      sum + (at >= CHECKSUM_AT && at < CHECKSUM_AT + CHECKSUM_LENGTH ? 0x20 : byte),
    0,
  )

export interface TarEntry {
  path: string
  content: Buffer
}

/**
 * Yields the files of a tar archive; folders are skipped. Contents are views of the archive's
 * bytes.
 * @throws Refusal for anything but regular files with plain paths, if a limit is exceeded, and for
 * a damaged archive
 */
export function* readTar(
  archive: Buffer,
  limits: ArchiveLimits = SUBMISSION_LIMITS,
): Generator<TarEntry> {
  const seen = new Set<string>()
  let at = 0
  const take = (count: number): Buffer | undefined => {
    if (at + count > archive.length) return undefined
    at += count
    return archive.subarray(at - count, at)
  }
  for (let entries = 1; ; entries++) {
    // Blocks of zeros end an archive; without them it is truncated.
    const header = readTarHeader(
      take(BLOCK) ?? refuse('It is truncated: its tar archive has no end.'),
    )
    if (!header) return
    if (entries > limits.entries) refuse(`It contains more than ${limits.entries} entries.`)
    const { size, type } = header
    requireHarmlessType(type, header.path)
    requireSmallFile(header, limits)
    const content = take(size) ?? refuse('It is truncated in the middle of a file.')
    if (take((BLOCK - (size % BLOCK)) % BLOCK) === undefined)
      refuse('It is truncated after a file.')
    if ('xg'.includes(type)) continue
    const path = partPath(header.path)
    if (type === '5') continue
    if (seen.has(path)) refuse(`It contains ${quoted(path)} twice.`)
    seen.add(path)
    yield { path, content }
  }
}

/**
 * The ratio is checked only after this many unpacked bytes: the first bytes of a stream are not
 * representative.
 */
const RATIO_FROM = 2 ** 20
const CHUNK = 2 ** 21

/**
 * The unpacked bytes of a gzip file. Unpacking stops at the limits, regardless of the size that the
 * file claims.
 * @throws Refusal when it is not a regular file, not gzip, truncated, or larger than the limits
 */
export function gunzipFile(file: string, limits: ArchiveLimits = SUBMISSION_LIMITS): Buffer {
  const { unpackedBytes, ratio } = limits
  const byRatio = Math.max(RATIO_FROM, packedSize(file, limits) * ratio)
  try {
    // Most submissions unpack into one chunk, without a copy.
    return gunzipSync(readFileSync(file), {
      maxOutputLength: Math.min(byRatio, unpackedBytes),
      chunkSize: CHUNK,
    })
  } catch (error) {
    const code = String((error as NodeJS.ErrnoException).code)
    if (code === 'ERR_BUFFER_TOO_LARGE' && byRatio < unpackedBytes)
      refuse(`It unpacks to more than ${ratio} times its size: no capture is that uniform.`)
    if (code === 'ERR_BUFFER_TOO_LARGE') refuse(`It unpacks to more than ${unpackedBytes} bytes.`)
    if (code === 'Z_BUF_ERROR') refuse('It is truncated: its gzip stream has no end.')
    if (code.startsWith('Z_')) refuse('It is damaged, or not a gzip file.')
    if (code === 'EACCES' || code === 'EPERM') refuse("It can't be read: check its permissions.")
    throw error
  }
}

/** The size of a submitted file in bytes. Refuses anything but a regular file within the limit. */
function packedSize(file: string, { packedBytes }: ArchiveLimits): number {
  const stats = lstatSync(file, { throwIfNoEntry: false }) ?? refuse('There is no such file.')
  if (!stats.isFile()) refuse('It is not a regular file.')
  if (stats.size === 0) refuse('It is empty.')
  if (stats.size > packedBytes) refuse(`It has ${stats.size} bytes; ${packedBytes} is the most.`)
  return stats.size
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
