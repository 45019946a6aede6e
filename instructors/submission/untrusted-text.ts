import { Refusal } from '../../dataplane/refusal.ts'
import { quoted } from '../../host/plain-text.ts'

/**
 * Limits for a learner's archive; beyond them it is refused. A solved lab has a few hundred
 * kilobytes packed and a few megabytes unpacked, a ratio of about 10; captures of one cluster are
 * similar, so a legitimate ratio may be many times higher.
 */
export const SUBMISSION_LIMITS = {
  /** The file as handed in. */
  packedBytes: 16 * 2 ** 20,
  unpackedBytes: 96 * 2 ** 20,
  /** Unpacked bytes per packed byte, checked after the first megabyte. */
  ratio: 150,
  /** Entries of any kind. */
  entries: 2000,
  fileBytes: 16 * 2 ** 20,
  /**
   * Bytes of one line. An API server accepts objects up to 1.5 MB; each is one line, which escapes
   * may double.
   */
  lineLength: 2 ** 22,
}

export type ArchiveLimits = Readonly<typeof SUBMISSION_LIMITS>

/** A submission that is refused. The message is one sentence, safe to print, with the reason. */
export class SubmissionRefusal extends Refusal {}

/** Ends the reading of a submission. */
export function refuse(sentence: string): never {
  throw new SubmissionRefusal(sentence)
}

const decoder = new TextDecoder('utf-8', { fatal: true })
/** No API object is nested deeper; deeper nesting would exhaust the stack of a recursive reader. */
const JSON_DEPTH = 100

/** A file of a submission as text. Refuses invalid UTF-8, NUL bytes and overlong lines. */
export function plainUtf8(content: Buffer, path: string): string {
  if (content.includes(0)) refuse(`Its file ${quoted(path)} contains a NUL byte.`)
  const { lineLength } = SUBMISSION_LIMITS
  // No line of a file can be longer than the file.
  for (let at = 0; content.length - at > lineLength; ) {
    const end = content.indexOf(0x0a, at)
    const length = (end === -1 ? content.length : end) - at
    if (length > lineLength)
      refuse(
        `Its file ${quoted(path)} contains a line of ${length} bytes; ${lineLength} is the most.`,
      )
    at += length + 1
  }
  try {
    return decoder.decode(content)
  } catch {
    return refuse(`Its file ${quoted(path)} is not UTF-8 text.`)
  }
}

/**
 * Parses untrusted JSON. Refuses excessive nesting and keys with a special meaning in JavaScript.
 */
export function parseUntrustedJson(text: string, what: string): unknown {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    refuse(`Its ${what} is not JSON.`)
  }
  requireHarmless(json, what)
  return json
}

/** Refuses the same in parsed JSON. Does not use recursion, because the depth is unknown. */
export function requireHarmless(json: unknown, what: string): void {
  let level: object[] = [json].filter(isObjectOrList)
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > JSON_DEPTH) refuse(`Its ${what} is nested more than ${JSON_DEPTH} levels deep.`)
    if (level.some((value) => Object.hasOwn(value, '__proto__')))
      refuse(`Its ${what} contains the key "__proto__".`)
    level = level.flatMap(objectsIn)
  }
}

/** The objects and lists directly in one. */
const objectsIn = (value: object): object[] =>
  (Array.isArray(value) ? value : Object.values(value)).filter(isObjectOrList)

const isObjectOrList = (value: unknown): value is object =>
  typeof value === 'object' && value !== null
