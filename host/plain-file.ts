import {
  accessSync,
  closeSync,
  constants,
  fstatSync,
  openSync,
  readFileSync,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { Refusal } from '../dataplane/refusal.ts'

/**
 * Large enough for every file that we or kubectl write, small enough for the memory of any machine.
 */
const LIMIT_BYTES = 256 * 2 ** 20

/**
 * A file or folder can't be used. The message is a sentence with the path, without any content of
 * the file.
 */
export class PlainFileError extends Refusal {
  /** What is wrong, to follow the path in a sentence: `does not exist`. */
  readonly fault: string

  constructor(path: string, fault: string) {
    super(`"${path}" ${fault}.`)
    this.fault = fault
  }
}

/**
 * The text of an ordinary file. Pipes, sockets and devices, which may never end, are refused.
 * @throws PlainFileError with the reason
 */
export function readPlainFile(path: string, limitBytes = LIMIT_BYTES): string {
  let file: number | undefined
  try {
    // Without O_NONBLOCK, opening a pipe waits for another process to write to it.
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const stats = fstatSync(file)
    if (stats.isDirectory()) throw new PlainFileError(path, 'is a folder, not a file')
    if (!stats.isFile()) throw new PlainFileError(path, 'is not a regular file')
    if (stats.size > limitBytes)
      throw new PlainFileError(path, `is larger than ${limitBytes / 2 ** 20} MiB`)
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw error instanceof PlainFileError ? error : new PlainFileError(path, fileErrorText(error))
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

/** Whether a path is a folder or a link to one. False if that can't be read. */
export function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

/**
 * Verifies, before long work begins, that its result can be written.
 * @throws PlainFileError that names what is in the way
 */
export function requireWritable(file: string): void {
  const folder = dirname(file)
  if (isFolder(file))
    throw new PlainFileError(file, 'is a folder, not a file: name a file to write')
  try {
    accessSync(statSync(file, { throwIfNoEntry: false }) ? file : folder, constants.W_OK)
  } catch (error) {
    throw new PlainFileError(file, `can't be written: "${folder}" ${fileErrorText(error)}`)
  }
  if (!isFolder(folder))
    throw new PlainFileError(file, `can't be written: "${folder}" is not a folder`)
}

const FAULTS: Record<string, string> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'is not a folder, or a part of its path is not',
  EISDIR: 'is a folder, not a file',
  EACCES: 'may not be used by you',
  EPERM: 'may not be used by you',
  ELOOP: 'is a link to itself',
  ENAMETOOLONG: 'is longer than a path may be',
  EROFS: 'is on a read-only disk',
  ENXIO: 'is not a regular file',
  ENOTEMPTY: 'is a folder with something in it',
  EBUSY: 'is in use',
  EMFILE: "can't be opened: this process has too many open files",
}

/** The meaning of an error of the file system, to follow the path in a sentence. */
export function fileErrorText(error: unknown): string {
  const code =
    error instanceof Error && 'code' in error ? String(error.code) : 'no reason was given'
  return FAULTS[code] ?? `can't be used (${code})`
}
