import { createHash } from 'node:crypto'
import { chmodSync, createReadStream, renameSync, rmSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { ensureArtifact } from './artifact.ts'
import type { Progress } from './progress.ts'
import { stallSeconds, watchDownload } from './supervised.ts'
import { explainSystemError } from './system-trouble.ts'

/** SHA-256 of a file, in hexadecimal. */
async function checksum(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

export interface DownloadOptions {
  /** For the progress line: `kind v0.33.0`. */
  title?: string
  progress?: Progress
}

/**
 * Fetches a file with a known SHA-256 and makes it executable, once, and again if it is damaged. An interrupted download is
 * resumed by the next call; the file appears under its name only when the checksum is right.
 * @throws Error in one sentence: not reachable, refused, stalled, or a wrong checksum (the file is removed)
 */
export async function fetchVerified(
  url: string,
  sha256: string,
  path: string,
  { title = url, progress }: DownloadOptions = {},
): Promise<void> {
  const make = async (fresh: string) => {
    const part = `${path}.part`
    progress?.start(`Fetching ${title}`)
    try {
      await download({ url, sha256, part }, progress)
      chmodSync(part, 0o755)
      renameSync(part, fresh)
    } catch (error) {
      progress?.end(false)
      throw error
    }
    progress?.end(true)
  }
  await ensureArtifact({ path, parts: [sha256], make }, progress)
}

interface Download {
  url: string
  sha256: string
  /** The file for the received part. */
  part: string
}

async function download({ url, sha256, part }: Download, progress: Progress | undefined): Promise<void> {
  let bytes = statSync(part, { throwIfNoEntry: false })?.size ?? 0
  const headers: Record<string, string> = bytes > 0 ? { range: `bytes=${bytes}-` } : {}
  const stalled = new AbortController()
  const stop = watchDownload(
    () => bytes,
    () => stalled.abort(new Error(`nothing was received for ${stallSeconds()} s`)),
    () => progress?.update?.(`${(bytes / 1_000_000).toFixed(1)} MB`),
  )
  try {
    const response = await fetch(url, { headers, signal: stalled.signal }).catch((error: unknown) => {
      throw new Error(`"${url}" could not be reached (${reasonOf(error)}).`)
    })
    // 416: the part is already complete, or invalid; the checksum decides.
    if (response.status !== 416) {
      if (!response.ok || !response.body)
        throw new Error(`"${url}" answered ${response.status} ${response.statusText}.`)
      const resumed = response.status === 206
      if (!resumed) bytes = 0
      const file = await open(part, resumed ? 'a' : 'w', 0o755)
      try {
        // Sequential writes, so that a broken connection leaves a prefix of the file.
        for await (const chunk of response.body) {
          await file.write(chunk)
          bytes += chunk.length
        }
      } catch (error) {
        if (explainSystemError(error)) throw error
        throw new Error(`"${url}" was cut off (${reasonOf(error)}); run the same command to resume.`)
      } finally {
        await file.close()
      }
    }
  } finally {
    stop()
  }
  const sum = await checksum(part)
  if (sum !== sha256) {
    rmSync(part)
    throw new Error(`"${url}" has the SHA-256 ${sum} instead of ${sha256}: the file was removed.`)
  }
}

const reasonOf = (error: unknown) => (error instanceof Error ? error.message : error)
