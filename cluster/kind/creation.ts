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
 * Kills a creation that outlived the command which began it. It must not clean up after itself: it would delete, by name,
 * what the next creation makes.
 * @returns whether a creation was interrupted: its cluster is incomplete
 */
export async function endStrayCreation(folder: string): Promise<boolean> {
  const wasCutOff = existsSync(fileIn(folder))
  const pid = notedProcess(fileIn(folder))
  if (pid !== undefined) {
    process.kill(pid, 'SIGKILL')
    await waitFor('the interrupted creation to end', 10_000, async () => notedProcess(fileIn(folder)) === undefined)
  }
  forgetProcess(fileIn(folder))
  return wasCutOff
}

const markOf = (folder: string) => join(folder, 'whole')

/**
 * Records that every node of this cluster was Ready once, and its address then: from then on the cluster is removed only with
 * consent.
 */
export function markWhole(folder: string, addresses: ReadonlyMap<string, string>): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  writeFileSync(markOf(folder), [...addresses].map(([node, address]) => `${node} ${address}\n`).join(''))
}

/** The addresses of the nodes when the cluster was complete, by node; empty if none were recorded. */
export function recordedAddresses(folder: string): Map<string, string> {
  const lines = wasWhole(folder) ? readFileSync(markOf(folder), 'utf8').match(/^\S+ \S+$/gm) : []
  return new Map(lines?.map((line) => line.split(' ') as [string, string]))
}

export const wasWhole = (folder: string): boolean => existsSync(markOf(folder))

export function forgetWhole(folder: string): void {
  rmSync(markOf(folder), { force: true })
}
