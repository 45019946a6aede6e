import { decodedUtf8, requireHarmless } from './untrusted-text.ts'

/** How a list of objects is handed in: one object a line, which is quick to cut and says at once what two lists share. */
const HEAD = '{"apiVersion":"v1","kind":"List","items":[\n'
const TAIL = '\n]}\n'
const BETWEEN = ',\n'

/** A list of objects as a submission holds it; no item's JSON has a line end in it. */
export function printItems(items: readonly unknown[]): string {
  return `${HEAD}${items.map((item) => JSON.stringify(item)).join(BETWEEN)}${TAIL}`
}

/**
 * The objects of lists, each text read once: captures of one cluster differ in few of their objects. That a list falls into its
 * objects where its lines say so is never believed; a piece that is no JSON by itself has the whole list read in one.
 */
export class ItemTexts {
  readonly #known = new Map<string, unknown>()

  /**
   * The items of a list, whose bytes hold no NUL; undefined when it is written otherwise than printItems does. Refuses what
   * hostileFreeJson and decodedUtf8 refuse.
   */
  items(content: Buffer, path: string, what: string): unknown[] | undefined {
    // One character for each byte: quick to cut, to compare and to keep, and pieces end between characters, for they end in ASCII.
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
