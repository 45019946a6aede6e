/** How much of a stranger's archive is read before it is refused. */
export interface ArchiveLimits {
  /** Bytes of the file as handed in. */
  packedBytes: number
  /** Bytes of everything in it. */
  unpackedBytes: number
  /** Unpacked bytes to one packed byte, asked once a megabyte has come out. */
  ratio: number
  /** Entries of any kind. */
  entries: number
  /** Bytes of one file in it. */
  fileBytes: number
  /** Folders above a file. */
  depth: number
  /** Characters of one line of text. */
  lineLength: number
}

/**
 * A solved lab measures a few hundred kilobytes packed, some megabytes unpacked, at a ratio of about ten; captures of one
 * cluster repeat themselves, so an honest ratio may be many times that.
 */
export const SUBMISSION_LIMITS: ArchiveLimits = {
  packedBytes: 16 * 2 ** 20,
  unpackedBytes: 96 * 2 ** 20,
  ratio: 150,
  entries: 2000,
  fileBytes: 16 * 2 ** 20,
  depth: 4,
  // The largest object that an API server takes has 1.5 MB, and is one line, which escapes may double.
  lineLength: 2 ** 22,
}
