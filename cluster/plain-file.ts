import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'

/** Large enough for every file that we or kubectl write, small enough for the memory of any machine. */
const LIMIT_BYTES = 256 * 2 ** 20

/** A file can't be read. The message is one clause without a full stop: the value in quotes, and what is wrong with it. */
export class PlainFileError extends Error {}

/**
 * The text of an ordinary file. Pipes, sockets and devices, which may never end, are not opened to the end but refused.
 * @throws PlainFileError for whatever is wrong; it names the path and quotes nothing of the content
 */
export function readPlainFile(path: string, limitBytes = LIMIT_BYTES): string {
  const trouble = (what: string) => new PlainFileError(`"${path}" ${what}`)
  let file: number
  try {
    // Without O_NONBLOCK, opening a pipe waits for another process to write to it.
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    throw trouble(whyNot(error))
  }
  try {
    const stats = fstatSync(file)
    if (stats.isDirectory()) throw trouble('is a folder, not a file')
    if (!stats.isFile()) throw trouble('is no ordinary file')
    if (stats.size > limitBytes) throw trouble(`is larger than ${Math.round(limitBytes / 2 ** 20)} MiB`)
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw error instanceof PlainFileError ? error : trouble(whyNot(error))
  } finally {
    closeSync(file)
  }
}

const REASONS: Record<string, string> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist: a part of its path is a file',
  EISDIR: 'is a folder, not a file',
  EACCES: 'may not be opened by you',
  EPERM: 'may not be opened by you',
  ELOOP: 'is a link to itself',
  ENAMETOOLONG: 'is longer than a path may be',
  EROFS: 'is on a disk that can only be read',
  ENOSPC: 'does not fit: the disk is full',
  EDQUOT: 'does not fit: your share of the disk is full',
  EEXIST: 'exists already',
  ENXIO: 'is no ordinary file',
  EMFILE: 'can’t be opened: too many files are open',
}

/** What an error of the file system means, after the path: `does not exist`. */
function whyNot(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'an unknown reason'
  return REASONS[code] ?? `can’t be used (${code})`
}
