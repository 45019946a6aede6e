import { createHash } from 'node:crypto'
import { createReadStream, existsSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'

/** SHA-256 of a file, in hexadecimal. */
async function checksum(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

/**
 * Fetches a file whose SHA-256 is known and makes it executable. A download that was cut off is resumed by the next call;
 * the file appears under its name only when the sum is right.
 * @throws Error in one sentence: not reachable, refused, or a wrong sum (the wrong file is removed)
 */
export async function fetchVerified(url: string, sha256: string, path: string, deadlineMs = 120_000): Promise<void> {
  if (existsSync(path) && (await checksum(path)) === sha256) return
  mkdirSync(dirname(path), { recursive: true })
  const part = `${path}.part`
  const have = existsSync(part) ? statSync(part).size : 0
  const headers: Record<string, string> = have > 0 ? { range: `bytes=${have}-` } : {}
  let response: Response
  try {
    response = await fetch(url, { headers, signal: AbortSignal.timeout(deadlineMs) })
  } catch (error) {
    throw new Error(`"${url}" could not be reached (${error instanceof Error ? error.message : error}).`)
  }
  // 416: the part is complete already, or of no use; the sum decides.
  if (response.status !== 416) {
    if (!response.ok || !response.body) throw new Error(`"${url}" answered ${response.status} ${response.statusText}.`)
    const file = await open(part, response.status === 206 ? 'a' : 'w', 0o755)
    try {
      // One chunk after the other, so that what a broken connection leaves is a whole prefix of the file.
      for await (const chunk of response.body) await file.write(chunk)
    } catch (error) {
      const reason = error instanceof Error ? error.message : error
      throw new Error(`"${url}" was cut off (${reason}); run the same command to resume.`)
    } finally {
      await file.close()
    }
  }
  const sum = await checksum(part)
  if (sum !== sha256) {
    rmSync(part)
    throw new Error(`"${url}" has the SHA-256 ${sum} instead of ${sha256}: the file was removed.`)
  }
  renameSync(part, path)
}
