import { chmodSync, createWriteStream, renameSync, rmSync, statSync } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { checksum, ensureArtifact } from './artifact.ts'
import { reasonOf } from './main.ts'
import { type Progress, silent, withProgress } from './progress.ts'
import { stallSeconds, watchDownload } from './supervised.ts'
import { explainSystemError } from './system-trouble.ts'

export interface DownloadOptions {
  title?: string
  progress?: Progress
}

/**
 * Fetches a file with a known SHA-256 and makes it executable, once, and again if it is damaged. An
 * interrupted download is resumed by the next call; the file appears under its name only when the
 * checksum is right.
 * @throws Error in one sentence: not reachable, refused, stalled, or a wrong checksum (the file is
 * removed)
 */
export async function fetchVerified(
  url: string,
  sha256: string,
  path: string,
  { title = url, progress = silent }: DownloadOptions = {},
): Promise<void> {
  const make = (fresh: string) =>
    withProgress(progress, `Fetching ${title}`, async () => {
      const part = `${path}.part`
      await download(url, part, progress)
      verify(url, sha256, part)
      chmodSync(part, 0o755)
      renameSync(part, fresh)
    })
  await ensureArtifact({ path, parts: [sha256], make }, progress)
}

async function download(url: string, part: string, progress: Progress): Promise<void> {
  let bytes = statSync(part, { throwIfNoEntry: false })?.size ?? 0
  const headers: Record<string, string> = bytes > 0 ? { range: `bytes=${bytes}-` } : {}
  const stalled = new AbortController()
  const stop = watchDownload(
    () => bytes,
    () => stalled.abort(new Error(`nothing was received for ${stallSeconds()} s`)),
    () => progress.update?.(`${(bytes / 1_000_000).toFixed(1)} MB`),
  )
  try {
    const response = await fetch(url, { headers, signal: stalled.signal }).catch(
      (error: unknown) => {
        throw new Error(`"${url}" could not be reached (${reasonOf(error)}).`)
      },
    )
    // 416: the part is already complete, or invalid; the checksum decides.
    if (response.status === 416) return
    if (!response.ok || !response.body)
      throw new Error(`"${url}" answered ${response.status} ${response.statusText}.`)
    const isResumed = response.status === 206
    if (!isResumed) bytes = 0
    async function* counted(chunks: AsyncIterable<Uint8Array>) {
      for await (const chunk of chunks) {
        bytes += chunk.length
        yield chunk
      }
    }
    // A broken connection leaves a prefix of the file.
    const file = createWriteStream(part, { flags: isResumed ? 'a' : 'w', mode: 0o755 })
    await pipeline(response.body, counted, file).catch((error: unknown) => {
      if (explainSystemError(error)) throw error
      throw new Error(`"${url}" was cut off (${reasonOf(error)}); run the same command to resume.`)
    })
  } finally {
    stop()
  }
}

function verify(url: string, sha256: string, part: string): void {
  const sum = checksum(part)
  if (sum === sha256) return
  rmSync(part)
  throw new Error(`"${url}" has the SHA-256 ${sum} instead of ${sha256}: the file was removed.`)
}
