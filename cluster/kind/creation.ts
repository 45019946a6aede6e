import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import type { ProcessPromise } from 'zx'
import { processStartTime } from '../embedded/state-file.ts'
import { waitFor } from '../wait.ts'

/** Which process creates a cluster just now. A number that was given to another process has another start time. */
const Creator = z.object({ pid: z.number().int().positive(), startTime: z.string() })

const fileIn = (folder: string) => join(folder, 'creation.json')

/** Notes the process that creates a cluster in its folder, for as long as it runs. */
export async function noteWhileCreating(folder: string, creation: ProcessPromise): Promise<void> {
  const { pid } = creation
  const startTime = pid === undefined ? undefined : processStartTime(pid)
  if (startTime !== undefined) writeFileSync(fileIn(folder), JSON.stringify({ pid, startTime }))
  try {
    await creation
  } finally {
    rmSync(fileIn(folder), { force: true })
  }
}

/**
 * Ends a creation that outlived the command which began it. It gets no chance to tidy up after itself: it would delete by
 * name what the next creation makes.
 */
export async function endStrayCreation(folder: string): Promise<void> {
  if (!existsSync(fileIn(folder))) return
  const note = Creator.safeParse(readJson(fileIn(folder)))
  if (note.success && processStartTime(note.data.pid) === note.data.startTime) {
    process.kill(note.data.pid, 'SIGKILL')
    await waitFor('the interrupted creation to end', 10_000, async () => processStartTime(note.data.pid) === undefined)
  }
  rmSync(fileIn(folder), { force: true })
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return undefined
  }
}
