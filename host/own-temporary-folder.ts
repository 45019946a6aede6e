import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { processStartTime } from './live-process.ts'

/**
 * A new empty folder of this process, `PREFIX-PID-…`, for the caller to remove. Folders of the same
 * prefix whose process has ended, which SIGKILL left behind, are removed. Throws as mkdtemp does.
 */
export function ownTemporaryFolder(prefix: string, parent = tmpdir()): string {
  const owned = new RegExp(`^${prefix}-(\\d+)-\\w+$`)
  for (const name of readdirSync(parent)) {
    const pid = owned.exec(name)?.[1]
    if (pid === undefined || processStartTime(Number(pid)) !== undefined) continue
    try {
      rmSync(join(parent, name), { recursive: true, force: true })
    } catch {
      // It is another user's.
    }
  }
  return mkdtempSync(join(parent, `${prefix}-${process.pid}-`))
}
