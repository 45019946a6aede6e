import { isAscii } from 'node:buffer'
import { plainText, shortened } from '../../host/plain-text.ts'

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

/** A submission that is not judged at all. The message is one sentence, safe to print, that names what is wrong with it. */
export class Refusal extends Error {}

/** Ends the reading of a submission. */
export function refuse(sentence: string): never {
  throw new Refusal(sentence)
}

/** Untrusted text for one of our messages: short, on one line, with its control characters made visible. */
export function quoted(text: string): string {
  return `"${shortened(plainText(text.slice(0, 400)).replaceAll('\n', '\\n'), 80)}"`
}

const decoder = new TextDecoder('utf-8', { fatal: true })
/** Nested deeper than this is no API object, and would exhaust the stack of a recursive reader. */
const JSON_DEPTH = 100

/** A file of a submission as text. Refuses bytes that are no UTF-8, NUL bytes, and overlong lines. */
export function plainUtf8(content: Buffer, path: string, limits: ArchiveLimits): string {
  requirePlainLines(content, path, limits)
  return decodedUtf8(content, path)
}

/** Refuses NUL bytes, and overlong lines. */
export function requirePlainLines(content: Buffer, path: string, limits: ArchiveLimits): void {
  if (content.includes(0)) refuse(`Its file ${quoted(path)} holds a NUL byte.`)
  // No line of a file can be longer than the file.
  for (let at = 0; content.length - at > limits.lineLength; ) {
    const end = content.indexOf(0x0a, at)
    const length = (end === -1 ? content.length : end) - at
    if (length > limits.lineLength)
      refuse(`Its file ${quoted(path)} holds a line of ${length} bytes; ${limits.lineLength} is the most.`)
    at += length + 1
  }
}

/** The text of bytes; refuses those that are no UTF-8. Nearly every file is plain ASCII, which needs no decoder. */
export function decodedUtf8(content: Buffer, path: string): string {
  if (isAscii(content)) return content.toString('latin1')
  try {
    return decoder.decode(content)
  } catch {
    return refuse(`Its file ${quoted(path)} is no UTF-8 text.`)
  }
}

/** Parses a stranger's JSON. Refuses nesting without end and keys that mean something to JavaScript itself. */
export function hostileFreeJson(text: string, what: string): unknown {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    refuse(`Its ${what} is no JSON.`)
  }
  requireHarmless(json, what)
  return json
}

/** Refuses the same of JSON that was read. Walks without recursion: the depth is what is in doubt. */
export function requireHarmless(json: unknown, what: string): void {
  let level: object[] = [json].filter(isObject)
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > JSON_DEPTH) refuse(`Its ${what} is nested more than ${JSON_DEPTH} levels deep.`)
    const below: object[] = []
    for (const value of level) {
      if (Object.hasOwn(value, '__proto__')) refuse(`Its ${what} holds the key "__proto__".`)
      for (const child of Array.isArray(value) ? value : Object.values(value)) if (isObject(child)) below.push(child)
    }
    level = below
  }
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null
