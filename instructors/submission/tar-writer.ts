import { gzipSync } from 'node:zlib'
import { BLOCK, tarHeader } from './tar-header.ts'
import type { TarEntry } from './tar-reader.ts'

/** A gzipped ustar archive of these files, in this order. */
export function writeTarGz(entries: readonly TarEntry[], modified: Date): Buffer {
  const blocks = entries.flatMap(({ path, content }) => [
    tarHeader(path, content.length, modified),
    content,
    Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK),
  ])
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]), { level: 9 })
}
