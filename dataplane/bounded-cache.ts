/**
 * Caches values that are computed from a text. Values are shared, so callers must not change them.
 */
export class BoundedCache<Value> {
  readonly #values = new Map<string, Value>()
  readonly #limit: number

  /** A cache with `limit` entries is emptied before the next one is added. */
  constructor(limit: number) {
    this.#limit = limit
  }

  /**
   * The value of a text, created if it is not in the cache; if `create` throws, nothing is stored.
   */
  getOrCreate(text: string, create: (text: string) => Value): Value {
    const known = this.#values.get(text)
    if (known !== undefined || this.#values.has(text)) return known as Value
    // A slice of a longer text would keep the whole text in memory (V8), so the key is a copy.
    const key = Buffer.from(text).toString()
    const value = create(key)
    if (this.#values.size >= this.#limit) this.#values.clear()
    this.#values.set(key, value)
    return value
  }
}
