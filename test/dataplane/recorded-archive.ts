import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'

const RECORDINGS = join(import.meta.dirname, '../../data/recordings')

/**
 * The files of `data/recordings/NAME.json.br` by path. These recordings are whole captures with
 * much text in common: Brotli makes them 50 times smaller than the files, and Node.js reads it
 * without a library.
 */
export const unpackedRecording = (name: string): ReadonlyMap<string, string> =>
  new Map(
    Object.entries<string>(
      JSON.parse(
        brotliDecompressSync(readFileSync(join(RECORDINGS, `${name}.json.br`))).toString(),
      ),
    ),
  )

/**
 * Writes the files of an archive whose paths begin with `prefix` below a folder, and returns it.
 */
export function extractRecording(name: string, prefix: string, folder: string): string {
  for (const [path, text] of unpackedRecording(name)) {
    if (!path.startsWith(prefix)) continue
    const file = join(folder, path.slice(prefix.length))
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
  return folder
}
