import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { BLOCK, tarHeader } from '../../../instructors/submission/tar.ts'

/** One entry of an archive as a hostile hand would write it. */
export interface RawEntry {
  path: string
  content?: Buffer | string
  /** Type flag of the header; `0` is a file. */
  type?: string
  /** The size that the header claims, where it is not that of the content. */
  claims?: number
}

/** An uncompressed tar archive with whatever the entries say, its checksums right. */
export function tarOf(entries: readonly RawEntry[]): Buffer {
  return Buffer.concat([...entries.map(entryBytes), Buffer.alloc(2 * BLOCK)])
}

export function entryBytes({ path, content = '', type = '0', claims }: RawEntry): Buffer {
  const body = Buffer.from(content)
  const header = tarHeader('x', claims ?? body.length, new Date(0))
  header.fill(0, 0, 100)
  header.write(path.slice(0, 100), 0, 'utf8')
  header.write(type, 156)
  return Buffer.concat([
    withChecksum(header),
    body,
    Buffer.alloc((BLOCK - (body.length % BLOCK)) % BLOCK),
  ])
}

function withChecksum(header: Buffer): Buffer {
  header.fill(0x20, 148, 156)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return header
}

let folder: string | undefined
let count = 0

/** Removes the files that were written: to be called after all tests of a file. */
export function removeWritten(): void {
  if (folder !== undefined) rmSync(folder, { recursive: true })
  folder = undefined
}

/** Writes bytes to a new file in a folder of its own and gives its path. */
export function fileOf(bytes: Buffer, name = 'made.labgrade'): string {
  folder ??= mkdtempSync(join(tmpdir(), 'labgrade-'))
  const file = join(folder, String(++count), name)
  mkdirSync(dirname(file))
  writeFileSync(file, bytes)
  return file
}

export const gzFileOf = (entries: readonly RawEntry[]) => fileOf(gzipSync(tarOf(entries)))
