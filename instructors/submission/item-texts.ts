import { decodedUtf8, requireHarmless } from './untrusted-text.ts'

/** The form of an object list in a submission: one object per line, which is fast to split and to compare. */
const HEAD = '{"apiVersion":"v1","kind":"List","items":[\n'
const TAIL = '\n]}\n'
const BETWEEN = ',\n'

/** Prints a list of objects in the form of a submission; no item's JSON contains a line end. */
export function printItems(items: readonly unknown[]): string {
  return `${HEAD}${items.map((item) => JSON.stringify(item)).join(BETWEEN)}${TAIL}`
}

/**
 * Reads the objects of lists, each text once: captures of one cluster differ in few objects. The lines need not match the
 * objects: if a line is not JSON by itself, the whole list is read as one text.
 */
export class ItemTexts {
  readonly #known = new Map<string, unknown>()

  /**
   * The items of a list without NUL bytes; undefined if it is not in the form of printItems. Refuses what parseUntrustedJson
   * and decodedUtf8 refuse.
   */
  items(content: Buffer, path: string, what: string): unknown[] | undefined {
    // One character per byte: fast to split, compare and store; pieces end in ASCII, so between characters.
    const bytes = content.toString('latin1')
    if (!bytes.startsWith(HEAD) || !bytes.endsWith(TAIL)) return undefined
    const items: unknown[] = []
    for (const piece of bytes.slice(HEAD.length, -TAIL.length).split(BETWEEN)) {
      const item = this.#known.get(piece) ?? parsed(textOf(piece, path))
      if (item === undefined) return undefined
      if (!this.#known.has(piece)) requireHarmless(item, what)
      this.#known.set(piece, item)
      items.push(item)
    }
    return items
  }
}

const textOf = (bytes: string, path: string): string => decodedUtf8(Buffer.from(bytes, 'latin1'), path)

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
