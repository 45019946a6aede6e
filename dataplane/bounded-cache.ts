/** Caches values that are computed from a text. Values are shared, so callers must not change them. */
export class BoundedCache<Value> {
  readonly #values = new Map<string, Value>()
  readonly #limit: number

  /** A cache with `limit` entries is emptied before the next one is added. */
  constructor(limit: number) {
    this.#limit = limit
  }

  /**
   * The value of a text, created with `create` if it is not in the cache; if that throws, nothing is stored.
   */
  getOrCreate(text: string, create: (text: string) => Value): Value {
    const known = this.#values.get(text)
    if (known !== undefined || this.#values.has(text)) return known as Value
    const value = create(text)
    if (this.#values.size >= this.#limit) this.#values.clear()
    this.#values.set(text, value)
    return value
  }

  /**
   * The same for a slice of a longer text. A slice would keep the whole text in memory (V8), so the key is a
   * copy.
   */
  getOrCreateOfSlice(slice: string, create: (text: string) => Value): Value {
    const known = this.#values.get(slice)
    if (known !== undefined) return known
    return this.getOrCreate(this.#values.has(slice) ? slice : Buffer.from(slice).toString(), create)
  }
}
