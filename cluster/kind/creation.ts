import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ProcessPromise } from '../../host/command.ts'
import { forgetProcess, notedProcess, noteProcess } from '../../host/live-process.ts'
import { waitFor } from '../../host/wait.ts'

const fileIn = (folder: string) => join(folder, 'creation.json')

/** Records the process that creates a cluster in the cluster's folder while it runs. */
export async function noteWhileCreating(folder: string, creation: ProcessPromise): Promise<void> {
  if (creation.pid !== undefined) noteProcess(fileIn(folder), creation.pid)
  try {
    await creation
  } finally {
    forgetProcess(fileIn(folder))
  }
}

/**
 * Kills a creation that outlived its command. It must not clean up: it would delete the containers of the next creation,
 * which have the same names.
 * @returns whether a creation was interrupted: its cluster is incomplete
 */
export async function endStrayCreation(folder: string): Promise<boolean> {
  const wasInterrupted = existsSync(fileIn(folder))
  const pid = notedProcess(fileIn(folder))
  if (pid !== undefined) {
    process.kill(pid, 'SIGKILL')
    await waitFor('the interrupted creation to end', 10_000, async () => notedProcess(fileIn(folder)) === undefined)
  }
  forgetProcess(fileIn(folder))
  return wasInterrupted
}

const completeFile = (folder: string) => join(folder, 'whole')

/**
 * Records that every node of this cluster was Ready once, and the nodes' addresses: from now on the cluster is removed only
 * with consent.
 */
export function recordComplete(folder: string, addresses: ReadonlyMap<string, string>): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  writeFileSync(completeFile(folder), [...addresses].map(([node, address]) => `${node} ${address}\n`).join(''))
}

/** The addresses of the nodes when the cluster was complete, by node; empty if none were recorded. */
export function recordedAddresses(folder: string): Map<string, string> {
  const lines = wasComplete(folder) ? readFileSync(completeFile(folder), 'utf8').match(/^\S+ \S+$/gm) : []
  return new Map(lines?.map((line) => line.split(' ') as [string, string]))
}

export const wasComplete = (folder: string): boolean => existsSync(completeFile(folder))

export function forgetComplete(folder: string): void {
  rmSync(completeFile(folder), { force: true })
}
