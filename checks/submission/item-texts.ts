import { requireHarmless } from './untrusted-text.ts'

/** How `make submit` writes a list of objects, up to the first of them, and behind the last. */
const HEAD = '{\n "apiVersion": "v1",\n "kind": "List",\n "items": [\n  {\n'
const TAIL = '\n  }\n ]\n}\n'
const BETWEEN = '\n  },\n  {\n'

/**
 * The objects of lists, each text read once: captures of one cluster differ in few of their objects. That a list falls into its
 * objects where its lines say so is never believed; a piece that is no JSON by itself has the whole list read in one.
 */
export class ItemTexts {
  readonly #known = new Map<string, unknown>()

  /** The items of a list; undefined when it is not written as `make submit` writes it. Refuses what hostileFreeJson refuses. */
  items(text: string, what: string): unknown[] | undefined {
    if (!text.startsWith(HEAD) || !text.endsWith(TAIL)) return undefined
    const items: unknown[] = []
    for (const piece of text.slice(HEAD.length, -TAIL.length).split(BETWEEN)) {
      const item = this.#known.get(piece) ?? parsed(`{\n${piece}\n}`)
      if (item === undefined) return undefined
      if (!this.#known.has(piece)) requireHarmless(item, what)
      this.#known.set(piece, item)
      items.push(item)
    }
    return items
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
