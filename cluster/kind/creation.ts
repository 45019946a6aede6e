import { join } from 'node:path'
import type { ProcessPromise } from 'zx/core'
import { forgetProcess, notedProcess, noteProcess } from '../../host/live-process.ts'
import { waitFor } from '../../host/wait.ts'

const fileIn = (folder: string) => join(folder, 'creation.json')

/** Notes the process that creates a cluster in its folder, for as long as it runs. */
export async function noteWhileCreating(folder: string, creation: ProcessPromise): Promise<void> {
  if (creation.pid !== undefined) noteProcess(fileIn(folder), creation.pid)
  try {
    await creation
  } finally {
    forgetProcess(fileIn(folder))
  }
}

/**
 * Ends a creation that outlived the command which began it. It gets no chance to tidy up after itself: it would delete by
 * name what the next creation makes.
 */
export async function endStrayCreation(folder: string): Promise<void> {
  const pid = notedProcess(fileIn(folder))
  if (pid !== undefined) {
    process.kill(pid, 'SIGKILL')
    await waitFor('the interrupted creation to end', 10_000, async () => notedProcess(fileIn(folder)) === undefined)
  }
  forgetProcess(fileIn(folder))
}
