import { existsSync, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { cacheFolder } from './layout.ts'
import { fileErrorText } from './plain-file.ts'
import { Trouble } from './trouble.ts'

/**
 * This machine prevents the work: a full disk, a folder that can't be written, a limit. The message
 * is a sentence.
 */
export class SystemTrouble extends Trouble {}

const bytesPerMegabyte = 1_000_000

/**
 * Space for packages, lists, archives while they are unpacked, and bundles (measured on Debian 12:
 * 330 MB).
 */
export const CACHE_MEGABYTES = 400

/**
 * Megabytes that this user can still write to the file system of a path; of a path that does not
 * exist yet, its parent's.
 */
export function freeMegabytes(path: string): number {
  const { bavail, bsize } = statfsSync(nearest(path))
  return Math.floor((bavail * bsize) / bytesPerMegabyte)
}

const nearest = (path: string): string =>
  existsSync(path) || path === dirname(path) ? path : nearest(dirname(path))

/** @throws SystemTrouble when a folder's file system has less free space */
export function requireSpace(folder: string, megabytes: number): void {
  const free = freeMegabytes(folder)
  if (free < megabytes) throw new SystemTrouble(noSpace(folder, megabytes))
}

export function noSpace(folder: string, megabytes = CACHE_MEGABYTES): string {
  return `No space is left for "${folder}": ${freeMegabytes(folder)} MB are free and ${megabytes} MB are needed; delete something on that disk and run the command again.`
}

/** Whether the output of a failed program means that the disk is full. */
export const isFullDisk = (text: string): boolean =>
  /No space left on device|Disk quota exceeded|not enough free space|ENOSPC|EDQUOT/i.test(text)

interface SystemError extends NodeJS.ErrnoException {
  syscall: string
  dest?: string
}

const isSystemError = (error: unknown): error is SystemError =>
  error instanceof Error &&
  'code' in error &&
  'syscall' in error &&
  typeof error.syscall === 'string'

/**
 * Advice for a program that can't be started: on a disk that is mounted noexec (mount(8)), its mode
 * is right already.
 */
function cannotRun(program: string): string {
  const isExecutable = ((statSync(program, { throwIfNoEntry: false })?.mode ?? 0) & 0o111) !== 0
  if (!isExecutable)
    return `"${program}" can't be run: make it executable and run the command again.`
  return `"${program}" can't be run, although it is executable: its disk is mounted noexec, or a rule of this system forbids it; clone the repository into a folder where programs can be run.`
}

/**
 * The meaning of a failed system call for the user, in one sentence. Undefined for other errors, as
 * of connections.
 */
export function explainSystemError(error: unknown): string | undefined {
  if (!isSystemError(error)) return undefined
  const { code, syscall, path, dest } = error
  // An error with `dest` is about the destination.
  const place = dest ?? path ?? cacheFolder
  const isSpawn = syscall.startsWith('spawn')
  const again = 'and run the command again'
  switch (code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return noSpace(place)
    case 'EROFS':
    case 'EACCES':
    case 'EPERM':
      if (isSpawn) return cannotRun(place)
      return `"${place}" can't be written or read (${code}): change its owner or mode with \`chown\` or \`chmod\`, or clone the repository into a folder that you can write to, ${again}.`
    case 'ENOTDIR':
    case 'EISDIR':
    case 'EEXIST':
      return `"${place}" is ${code === 'EISDIR' ? 'a folder' : 'a file'} in the wrong place: delete it ${again}.`
    case 'EFBIG':
      return `"${place}" would exceed the limit of a file's size: raise the limit with \`ulimit -f unlimited\` ${again}.`
    case 'EMFILE':
    case 'ENFILE':
      return `Too many files are open: raise the limit with \`ulimit -n 4096\` ${again}.`
    case 'EAGAIN':
      return isSpawn
        ? `The limit of processes is reached: raise it with \`ulimit -u\`, or end some, ${again}.`
        : undefined
    case 'ENOMEM':
      return `This machine has not enough memory: end other programs, or raise \`ulimit -v\`, ${again}.`
    default:
      if (path === undefined || isSpawn || /^(connect|bind|listen)/.test(syscall)) return undefined
      return `"${path}"${dest === undefined ? '' : `, or "${dest}",`} ${fileErrorText(error)}: choose another path, or repair this one.`
  }
}
