import { existsSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { freeMegabytes, SystemTrouble } from '../../host/system-trouble.ts'

const bytesPerMegabyte = 1024 * 1024

/**
 * The limits of a process (getrlimit(2)) that a cluster's kernel and daemon need (measured with Debian's 6.12 and Node 20): the line in
 * /proc/PID/limits, the value, and a clause about a lower one.
 */
const limitsFor = (megabytes: number): [line: string, needed: number, describe: (found: number) => string][] => [
  [
    'Max file size',
    megabytes * bytesPerMegabyte,
    (bytes) =>
      `files of at most ${Math.floor(bytes / bytesPerMegabyte)} MB are allowed, and its memory is a file of ${megabytes} MB: \`ulimit -f unlimited\``,
  ],
  [
    'Max address space',
    4096 * bytesPerMegabyte,
    (bytes) =>
      `processes may have ${Math.floor(bytes / bytesPerMegabyte)} MB of address space, and 4096 MB are needed: \`ulimit -v unlimited\``,
  ],
  ['Max open files', 256, (files) => `processes may open ${files} files, and 256 are needed: \`ulimit -n 1024\``],
  ['Max processes', 256, (count) => `a user may have ${count} processes, and 256 are needed: \`ulimit -u 1024\``],
]

/**
 * Checks that a kernel with this much memory can run within the limits of this process.
 * @param limits the text of /proc/self/limits
 * @throws SystemTrouble that names every limit that is too low, and the command that raises it
 */
export function requireLimits(megabytes: number, limits = readFileSync('/proc/self/limits', 'utf8')): void {
  const faults = limitsFor(megabytes).flatMap(([line, needed, describe]) => {
    const soft = new RegExp(`^${line}\\s+(\\d+)`, 'm').exec(limits)?.[1]
    return soft !== undefined && Number(soft) < needed ? [describe(Number(soft))] : []
  })
  if (faults.length > 0)
    throw new SystemTrouble(
      `The embedded kernel can't run here: ${faults.join('; ')} raises it, then run the command again.`,
    )
}

/**
 * A folder for the file that contains the guest's memory: a tmpfs if one is large enough, else the temporary folder.
 * @throws SystemTrouble if neither has enough space: the kernel would be killed at the first page that can't be written
 */
export function memoryFolder(megabytes: number, folders = ['/dev/shm', tmpdir()]): string {
  const there = [...new Set(folders)].filter((folder) => existsSync(folder))
  const found = there.find((folder) => freeMegabytes(folder) >= megabytes)
  if (found !== undefined) return found
  const rooms = there.map((folder) => `"${folder}" has ${freeMegabytes(folder)} MB`).join(' and ')
  throw new SystemTrouble(
    `The embedded kernel needs ${megabytes} MB of room for its memory, and ${rooms || 'there is no temporary folder'} free: make room, or name another folder with TMPDIR=, and run the command again.`,
  )
}
